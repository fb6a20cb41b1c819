"""A JAX step compiled for an H100 on a machine without one: what would run there, and not how fast.

XLA compiles for a card that it only has a description of (`h100_sxm.txtpb`), to machine code of sm_90a. It cannot try
kernels there, so that the choice between cuDNN's algorithms, which is the first thing to change speed, is not made.
``python -m tests.cuda_ahead.steps`` prints the figures of docs/lab/gpu.md. Needs the CUDA plugin of the extra
`jax-cuda` and ``JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1``, as ``tox run -e cuda-ahead`` sets them.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

from suite.plan.cell import Cell
from tests.frameworks import batches, module
from workloads.spec import specification

CARD = Path(__file__).with_name("h100_sxm.txtpb")
MIB = 2**20
#: The cells of the table: workload, kernel, precisions.
CELLS = (
    ("cifar100_cnn", "auto", ("fp32", "tf32", "bf16", "fp16")),
    ("cifar100_resnet18", "auto", ("fp32", "tf32", "bf16", "fp16")),
    ("imdb_lstm", "cudnn", ("fp32", "tf32")),
    ("imdb_lstm", "scan", ("fp32", "tf32", "bf16", "fp16")),
    ("imdb_transformer", "plain", ("fp32", "tf32", "bf16", "fp16")),
    ("imdb_transformer", "fused", ("bf16", "fp16")),
    ("gpt_small", "plain", ("fp32", "tf32", "bf16", "fp16")),
    ("gpt_small", "fused", ("bf16", "fp16")),
)


@dataclass(frozen=True)
class Compiled:
    """What XLA says of a program: its text, the sum of its arguments and temporary memory, its CUDA graphs."""

    text: str
    peak_bytes: int
    graphs: int
    machine_code: frozenset[str]

    @property
    def calls(self) -> Counter[str]:
        """Calls of libraries by name."""
        return Counter(re.findall(r'custom_call_target="([^"]+)"', self.text))

    def count(self, kind: str) -> int:
        """The operations of a kind in the whole program."""
        return len(re.findall(rf" {kind}\(", self.text))

    @property
    def loops(self) -> list[int]:
        """The steps of each loop."""
        return [int(count) for count in re.findall(r'"known_trip_count":\{"n":"(\d+)"', self.text)]

    @property
    def products(self) -> set[tuple[str, ...]]:
        """The precisions that products of matrices and convolutions ask for, where they ask for any.

        A convolution with its activation in one call has a third operand, the bias, which is only added.
        """
        return {tuple(found.split(",")[:2]) for found in re.findall(r"operand_precision=\{([a-z,]+)\}", self.text)}


def compile_ahead(cell: Cell) -> Compiled:
    """The cell's step as `suite.worker.frameworks.jax.training` trains it on CUDA, compiled for the card."""
    with on_card(cell) as (training, batch, compiled):
        return compiled(training.jitted, (training.state, *batch), training.options)


def compile_serving_ahead(cell: Cell) -> dict[str, Compiled]:
    """What serves the trained cell, likewise: the forward pass, and where it decodes, the prompts' and a word's."""
    import jax

    from suite.worker.frameworks.jax.inference import Model

    with on_card(cell) as (training, (inputs, _), compiled):
        model, trained = Model(training), (training.state.weights, training.state.statistics)
        made = {"forward": compiled(model.forward, (*trained, inputs), training.options)}
        if specification(cell.workload, cell.size).decodes:
            prompts = inputs[:, : inputs.shape[1] // 2]
            state = jax.eval_shape(model.prefilled, *trained, prompts)
            made["prefill"] = compiled(model.prefilled, (*trained, prompts), training.options)
            made["decode"] = compiled(model.decoded, (*trained, state), training.options)
    return made


@contextmanager
def on_card(cell: Cell) -> Iterator[tuple[Any, Any, Callable[[Any, Any, Any], Compiled]]]:
    """A `Training` as for CUDA, a batch of it, and what compiles a function for the card."""
    import jax
    from jax.experimental import rnn, topologies
    from jax.sharding import SingleDeviceSharding

    from suite.worker import frameworks
    from suite.worker.frameworks.jax import training as code

    card = topologies.get_topology_desc("h100", platform="cuda", target_config=CARD.read_text(), topology="1x1x1")
    place, spec = code._place, specification(cell.workload, cell.size)
    # What asks for a device: where arrays lie, and how much memory cuDNN's LSTM wants for its work.
    wanted = mock.Mock(side_effect=lambda *_: (0, 1))
    there = SingleDeviceSharding(card.devices[0])

    def described(array: Any) -> jax.ShapeDtypeStruct:
        array = array if hasattr(array, "shape") else jax.numpy.asarray(array)  # a loss scale counts in Python
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=there)

    def compiled(function: Any, arguments: Any, options: Any) -> Compiled:
        with TemporaryDirectory() as folder:
            lowered = function.trace(*jax.tree.map(described, arguments)).lower(lowering_platforms=("cuda",))
            made = lowered.compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_text": True} | options)
            targets = {found for path in Path(folder).glob("*.ptx") for found in _targets(path)}
            passed = [path.read_text() for path in Path(folder).glob("*thunk_sequence_after_thunk_passes.txt")]
        memory = made.memory_analysis()
        return Compiled(
            made.as_text(),
            memory.argument_size_in_bytes + memory.temp_size_in_bytes,
            sum(text.count("kCommandBuffer") for text in passed),
            frozenset(targets),
        )

    with (
        mock.patch.object(frameworks, "check"),
        mock.patch.object(code, "_place", return_value=place("cpu")),
        mock.patch.object(rnn.gpu_rnn, "compute_rnn_workspace_reserve_space_sizes", wanted),
    ):
        code.prepare(cell.but(compile="compile"), "cpu", 0)  # a CPU lacks the other mode
        training = code.Training(cell, spec, module(cell.workload, "jax"), spec.reference_weights(0), "cuda")
        training.device = SimpleNamespace(platform="gpu")
        yield training, batches(spec, cell.batch * cell.accumulate)[0], compiled


def _targets(path: Path) -> list[str]:
    return re.findall(r"^\.target (\w+)", path.read_text(), re.MULTILINE)


def main() -> None:
    """Print a row for each program of each cell: what trains, and what serves."""
    print("| workload | kernel | precision | program | cuDNN calls | fusions | loops | CUDA graphs | peak, MiB |")
    print("|---|---|---|---|--:|--:|---|--:|--:|")
    for workload, kernel, precisions in CELLS:
        for precision in precisions:
            cell = Cell(workload, "jax", precision=precision, batch=128, kernel=kernel)
            for program, one in ({"train": compile_ahead(cell)} | compile_serving_ahead(cell)).items():
                calls = sum(count for name, count in one.calls.items() if "dnn" in name)
                loops = ", ".join(map(str, one.loops)) or "none"
                figures = (calls, one.count("fusion"), loops, one.graphs, f"{one.peak_bytes / MIB:,.0f}")
                print("|", " | ".join(map(str, (workload, kernel, precision, program, *figures))), "|", flush=True)


if __name__ == "__main__":
    main()
