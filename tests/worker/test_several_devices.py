"""Several devices compute what one does of the same global batch: in float64, to 1e-12, by every strategy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import REFERENCE_STRATEGY, USUAL_STRATEGY, Cell
from suite.session.launches import ranks
from tests.frameworks import batches, needs_deepspeed, needs_frameworks, training
from tests.launches import network_of
from tests.ranked import GLOBAL_BATCH, STEPS
from tests.worker.test_listening import Watch
from workloads.spec import WorkloadSpec, specification

pytestmark = [needs_frameworks, pytest.mark.launches, pytest.mark.long]

ROOT = Path(__file__).parents[2]
STRATEGIES = {
    "pytorch": ("ddp", "fsdp", "split"),
    "tensorflow": ("multiworker", "mirrored", "split"),
    "jax": ("shard-map", "jit", "local", "split"),
}
CASES = [(framework, strategy) for framework, names in STRATEGIES.items() for strategy in names]
TOLERANCE = 1e-12
#: How far DeepSpeed may be off DDP in float32 and bf16; 2e-6 was found, with four devices.
DEEPSPEED = 1e-5
#: And a ResNet-18 that takes its statistics over all devices off one device's, in float64: 1.5e-11 was found.
RESNET_TOLERANCE = 1e-10


def counts(framework: str, strategy: str) -> tuple[int, ...]:
    """How many devices a strategy is proved with: stages are two."""
    return (2,) if strategy == "split" and framework != "jax" else (2, 4)


@cache
def computed(cell: Cell, folder: Path, change: str = "") -> dict[str, np.ndarray]:
    """The losses and the weights after some steps, of a cell's ranks."""
    output = folder / f"{cell.id}{change}.npz"
    command = [sys.executable, "-m", "tests.ranked", json.dumps(cell.to_json()), str(output), change]
    base = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    environments = ranks.environments(cell, "cpu") if cell.processes > 1 else [{}]
    with ExitStack() as started:
        processes, inside = [], network_of(cell, started)
        for own in environments:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            processes.append(
                started.enter_context(subprocess.Popen([*inside, *command], cwd=ROOT, env=base | own, **pipes))
            )
            started.callback(processes[-1].kill)
        said = [process.communicate(timeout=240)[0] for process in processes]
    assert output.is_file(), "\n".join(each[-3000:] for each in said)
    with np.load(output) as arrays:
        return dict(arrays)


@cache
def alone(workload: str, framework: str) -> dict[str, np.ndarray]:
    """The same on one device, in this process."""
    spec = specification(workload, "small")
    with training(workload, framework, "fp64", spec=spec, weights=spec.reference_weights(7)) as running:
        return stepped(running, spec)


def stepped(running: Any, spec: WorkloadSpec) -> dict[str, np.ndarray]:
    source = batches(spec, GLOBAL_BATCH)
    losses = running.read([running.step(running.put(source[number])) for number in range(STEPS)])
    return {"losses": np.array(losses), **running.weights()}


def deviation(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest relative difference of the losses or of a tensor, in the L2 norm."""
    assert one.keys() == other.keys()
    return max(float(np.linalg.norm(one[name] - other[name]) / np.linalg.norm(one[name])) for name in one)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("devices")


def cell_of(workload: str, framework: str, devices: int, strategy: str = "", accumulate: int = 1) -> Cell:
    batch = GLOBAL_BATCH // devices // accumulate
    return Cell(
        workload, framework, "fp64", batch, size="small", accumulate=accumulate, devices=devices, strategy=strategy
    )


def agree(workload: str, framework: str, strategy: str, devices: int, folder: Path, accumulate: int = 1) -> None:
    several = computed(cell_of(workload, framework, devices, strategy, accumulate), folder)
    assert several["losses"].dtype == np.float64
    assert deviation(alone(workload, framework), several) < TOLERANCE


#: A server of TensorFlow's is launched in every run by `test_listening`.
@pytest.mark.parametrize(
    ("framework", "strategy"),
    [*USUAL_STRATEGY.items(), pytest.param("tensorflow", "multiworker", marks=pytest.mark.slow)],
)
def test_two_devices_compute_what_one_does_and_listen_on_loopback_at_most(
    framework: str, strategy: str, folder: Path
) -> None:
    with Watch() as watch:
        agree("imdb_lstm", framework, strategy, 2, folder)
    assert not watch.beyond_loopback


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "strategy"), [*REFERENCE_STRATEGY.items(), ("pytorch", "fsdp")])
def test_a_decoder_on_two_devices_computes_what_one_does(framework: str, strategy: str, folder: Path) -> None:
    agree("gpt_small", framework, strategy, 2, folder)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
@pytest.mark.parametrize(
    ("framework", "strategy", "devices"), [(*case, count) for case in CASES for count in counts(*case)]
)
def test_every_strategy_computes_what_one_device_does(
    workload: str, framework: str, strategy: str, devices: int, folder: Path
) -> None:
    agree(workload, framework, strategy, devices, folder)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
@pytest.mark.parametrize(("framework", "strategy"), [case for case in CASES if case[1] != "jit"])
def test_accumulated_batches_are_averaged_once(workload: str, framework: str, strategy: str, folder: Path) -> None:
    agree(workload, framework, strategy, 2, folder, accumulate=2)


@pytest.mark.slow
def test_gradients_that_keras_sums_are_noticed(folder: Path) -> None:
    cell = cell_of("imdb_lstm", "tensorflow", 2)
    summed = computed(cell, folder, "keras-sums")
    assert deviation(alone("imdb_lstm", "tensorflow"), summed) > 1e-6


RESNET = "cifar100_resnet18"


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "strategy"), [("tensorflow", "synchronised"), ("jax", "jit"), ("jax", "split")])
def test_with_statistics_of_the_whole_batch_devices_compute_what_one_does(
    framework: str, strategy: str, folder: Path
) -> None:
    several = computed(cell_of(RESNET, framework, 2, strategy), folder)
    assert deviation(alone(RESNET, framework), several) < RESNET_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "strategy"),
    [
        ("pytorch", "ddp"), ("pytorch", "fsdp"), ("tensorflow", "multiworker"), ("tensorflow", "mirrored"),
        ("jax", "shard-map"), ("jax", "local"),
    ],
)  # fmt: skip
def test_with_statistics_of_their_own_devices_compute_what_one_does_of_accumulated_batches(
    framework: str, strategy: str, folder: Path
) -> None:
    """Each part of such a batch is normalised by itself too, and the weights follow the mean of the gradients."""
    several = computed(cell_of(RESNET, framework, 2, strategy), folder)
    accumulated = computed(cell_of(RESNET, framework, 1, accumulate=2), folder)
    assert deviation(accumulated, several) < TOLERANCE
    assert deviation(alone(RESNET, framework), several) > 1e-6


def deepspeed_cell(workload: str, devices: int = 2, **settings: Any) -> Cell:
    return cell_of(workload, "pytorch", devices, "deepspeed").but(**{"precision": "fp32", **settings})


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("devices", [2, 4])
def test_deepspeed_computes_what_ddp_does(workload: str, precision: str, devices: int, folder: Path) -> None:
    """Its optimizer's weights are in float32, so that float64 is out of its reach; DDP is proved there."""
    cell = deepspeed_cell(workload, devices, precision=precision)
    assert deviation(computed(cell.but(strategy="ddp"), folder), computed(cell, folder)) < DEEPSPEED


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_deepspeed_averages_accumulated_batches_once(workload: str, folder: Path) -> None:
    cell = deepspeed_cell(workload, batch=GLOBAL_BATCH // 4, accumulate=2)
    assert deviation(computed(cell.but(strategy="ddp"), folder), computed(cell, folder)) < DEEPSPEED


@needs_deepspeed
@pytest.mark.slow
def test_gradients_that_deepspeed_clips_are_noticed(folder: Path) -> None:
    """In ResNet-18; those of the CNN's and the LSTM's first steps are shorter than 1."""
    cell = deepspeed_cell(RESNET)
    assert deviation(computed(cell.but(strategy="ddp"), folder), computed(cell, folder, "deepspeed-clips")) > 0.01
