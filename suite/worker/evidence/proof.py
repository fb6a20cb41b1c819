"""What one framework computes of a workload in float64 on the CPU, for `python -m suite.prove`.

Started by `suite.session.launches.launch.ask`. It reads weights and batches from a file, and writes every number that
the comparison needs to another: logits, loss, gradients, the inputs and outputs of every layer that has weights, three
steps, an evaluation after them, and the same layers with dropout. It knows no framework.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.record.text import clean
from suite.worker.evidence.fingerprint import at_proof_rate
from suite.worker.evidence.owners import owners, part
from suite.worker.evidence.sources import Sources
from suite.worker.frameworks import import_framework
from workloads import registry
from workloads.data.dataset import Array
from workloads.faults import FAULTS, describe_fault
from workloads.spec import WorkloadSpec, specification

#: Forward passes with dropout, whose draws are counted together.
DRAWS = 8
#: Of a layer's input and output in such a pass, as many samples are kept as have so many numbers, but two at least.
DRAWN = 2**18

Arrays = dict[str, Array]
Batch = tuple[Array, Array]


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments, collect, and write the arrays beside the answer."""
    parser = argparse.ArgumentParser()
    for name in ("workload", "framework", "size", "given", "arrays", "answer"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--folder", default="")
    options = parser.parse_args(arguments)
    if options.folder:
        registry.register(options.folder)
    spec = specification(options.workload, options.size)
    with np.load(options.given, allow_pickle=False) as archive:
        given = {name: archive[name] for name in archive.files}
    weights = {name.removeprefix("weights/"): a for name, a in given.items() if name.startswith("weights/")}
    count = sum(name.startswith("inputs/") for name in given)
    batches = [(given[f"inputs/{step}"], given[f"labels/{step}"]) for step in range(count)]
    import_framework(options.framework)
    try:
        module = import_module(f"workloads.{options.workload}.{options.framework}")
    except FAULTS as error:  # of the user's own file; the last line of what is printed is shown
        traceback.print_exc()
        sys.exit(describe_fault(error, Path(options.folder)))
    facts, arrays = collect(options.framework, options.workload, module, spec, weights=weights, batches=batches)
    np.savez(options.arrays, **arrays)  # type: ignore[arg-type]
    Path(options.answer).write_text(json.dumps(facts), encoding="utf-8")


def collect(
    framework: str, workload: str, module: ModuleType, spec: WorkloadSpec, *, weights: Arrays, batches: list[Batch]
) -> tuple[dict[str, Any], Arrays]:
    """Facts, as JSON, and arrays by name. The last batch is for the evaluation.

    A stage that raises ends the collection; ``failed`` then has its name and the error in one line.
    """
    code = import_framework(framework)
    tools = import_module(f"suite.worker.frameworks.{framework}.evidence")
    spec = at_proof_rate(spec)
    cell = Cell(workload, framework, precision="fp64", batch=len(batches[0][1]), size=spec.size)
    layers = import_module(f"suite.worker.frameworks.{framework}.proof")
    stages = _Stages(code, layers, cell, spec=spec, module=module, weights=weights)
    code.prepare(cell, "cpu", 0)
    with tools.on_host():
        for name in ("weights", "forward", "gradients", "steps", "evaluation", "dropout"):
            try:
                getattr(stages, name)(batches)
            except FAULTS as error:  # any error of the port is a finding
                traceback.print_exc()
                where = describe_fault(error, Path(registry.folder_of(workload) or module.__file__ or ""))
                stages.facts["failed"] = {"stage": name, "error": clean(where, 500)}
                break
    return stages.facts, stages.arrays


class _Stages:
    """What is collected, stage after stage."""

    def __init__(
        self, code: Any, tools: Any, cell: Cell, *, spec: WorkloadSpec, module: ModuleType, weights: Arrays
    ) -> None:
        self.folder = Path(module.__file__ or "").parent
        self.code, self.tools, self.cell, self.spec, self.module, self.given = code, tools, cell, spec, module, weights
        self.facts: dict[str, Any] = {"framework": cell.framework, "layers": []}
        self.arrays: Arrays = {}

    def _training(self, dropout: bool) -> Any:
        return self.code.Training(self.cell, self.spec, self.module, dict(self.given), "cpu", dropout=dropout)

    def weights(self, batches: list[Batch]) -> None:
        """The model, and its weights as they come out again."""
        del batches
        building = getattr(self.tools, "building", None)  # of frameworks that call layers before there are numbers
        self.built = Sources(self.folder)
        with self.built if building else nullcontext(), building(self.built.note) if building else nullcontext():
            self.training = self._training(dropout=False)
        self._keep("weights", self.training.weights())
        self.facts["trained"] = self.tools.count_trained(self.training)

    def forward(self, batches: list[Batch]) -> None:
        """Logits, the loss, and the inputs and outputs of the layers."""
        batch = self.training.put(batches[0])
        self.arrays["logits"] = np.asarray(self.training.logits(batch), np.float64).reshape(len(batches[0][1]), -1)
        sources = Sources(self.folder)
        with sources, self.tools.calls(self.training, sources.note) as calls:
            self.tools.forward(self.training, batch)
        self.owners = owners(self.tools.parameters_by_layer(self.training), self.given, calls)
        lines = sources.of(self.owners)
        named = {path.partition("#")[0]: path for path in self.owners}  # as `building` notes them
        lines |= {named[name]: own for name, own in self.built.of(named).items()}
        for path, inputs, outputs in calls:
            if path in self.owners:
                number = len(self.facts["layers"])
                self.facts["layers"].append({"path": path, "tensors": self.owners[path], "lines": lines.get(path, [])})
                self._layer(number, input=inputs, output=outputs)

    def gradients(self, batches: list[Batch]) -> None:
        """The loss and the gradient of every tensor."""
        loss, gradients = self.tools.gradients(self.training, self.training.put(batches[0]))
        self.arrays["loss"] = np.array(loss)
        self._keep("gradients", gradients)

    def steps(self, batches: list[Batch]) -> None:
        """The losses of the steps, the weights after the first and the last, and statistics after the first."""
        self.training = self._training(dropout=False)
        self.arrays["evaluation/start"] = self._evaluate(self.training, batches[-1])
        losses = []
        for number, batch in enumerate(batches[:-1]):
            losses += self.training.read([self.training.step(self.training.put(batch))])
            if not number:
                self._keep("first", self.training.weights())
                statistics = self.tools.statistics(self.training)
        self.arrays["losses"] = np.array(losses)
        self._keep("after", self.training.weights())
        for number, layer in enumerate(self.facts["layers"]):
            self._layer(number, **statistics.get(layer["path"], {}))

    def evaluation(self, batches: list[Batch]) -> None:
        """The losses of the last batch's samples after the steps."""
        self.arrays["evaluation/after"] = self._evaluate(self.training, batches[-1])

    def dropout(self, batches: list[Batch]) -> None:
        """The layers' inputs and outputs in passes with dropout, and two evaluations, which must have none."""
        training = self._training(dropout=True)
        self.arrays["evaluation/dropout"] = self._evaluate(training, batches[-1])
        self.arrays["evaluation/again"] = self._evaluate(training, batches[-1])
        batch = training.put(batches[0])
        drawn: dict[tuple[str, str], list[Array]] = {}
        for _ in range(DRAWS):
            with self.tools.calls(training) as calls:
                self.tools.forward(training, batch)
            for path, *arrays in calls:
                for name, array in zip(("drawn_input", "drawn_output"), arrays, strict=True):
                    if path in self.owners and array is not None and array.size:
                        drawn.setdefault((path, name), []).append(part(array, DRAWN))
        for number, layer in enumerate(self.facts["layers"]):
            for name in ("drawn_input", "drawn_output"):
                passes = drawn.get((layer["path"], name), [])
                if len({array.shape for array in passes}) == 1:
                    self._layer(number, **{name: np.stack(passes)})

    def _evaluate(self, training: Any, batch: Batch) -> Array:
        losses, _ = training.get(training.evaluate(training.put(batch)))
        return np.asarray(losses, np.float64)

    def _keep(self, group: str, tensors: Mapping[str, Array]) -> None:
        self.arrays |= {f"{group}/{name}": np.array(array) for name, array in tensors.items()}

    def _layer(self, number: int, **arrays: Array | None) -> None:
        self.arrays |= {f"layers/{number}/{name}": a for name, a in arrays.items() if a is not None}


if __name__ == "__main__":
    main()
