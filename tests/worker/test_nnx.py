"""flax.nnx: the numbers of the suite's own loop in float64, all evidence in a launch, and what it does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import launch
from suite.worker import interfaces
from suite.worker.frameworks import UnsupportedError
from tests.frameworks import batches, framework_of, narrow, needs_frameworks, switches_restored
from tests.isolation import in_own_process
from tests.worker.test_keras import agree
from workloads.data.cache import folder_of


@needs_frameworks("jax", "pytorch")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    ("workload", "framework"),
    [
        ("imdb_lstm", "jax"),
        ("cifar100_cnn", "pytorch"),
        # JAX compiles it for longest, and `test_identity_float64` holds its loop to PyTorch's.
        pytest.param("cifar100_cnn", "jax", marks=pytest.mark.slow),
    ],
)
def test_nnx_computes_what_the_own_loop_computes(workload: str, framework: str) -> None:
    from tests.worker.keras_numbers import computed

    of = in_own_process(computed)
    agree(of(workload, "jax", "nnx"), of(workload, framework, "native"))


@pytest.mark.slow
@needs_frameworks("jax")
@pytest.mark.usefixtures("unoptimized")
def test_a_restored_training_goes_on_as_if_nothing_had_happened() -> None:
    spec, code = narrow("cifar100_cnn"), framework_of("jax")
    cell = Cell("cifar100_cnn", "jax", batch=2, size="small", interface="nnx")
    source = batches(spec, 2)
    with switches_restored("jax"):
        code.prepare(cell, "cpu", 0)
        make, module = interfaces.of(cell).Training, interfaces.module(cell)
        first, second = (make(cell, spec, module, spec.reference_weights(0), "cpu", seed=seed) for seed in (1, 2))
        first.step(first.put(source[0]))
        second.restore(first.checkpoint())
        losses = [
            each.read([each.step(each.put(source[1])), each.step(each.put(source[2]))]) for each in (first, second)
        ]
    assert losses[0] == losses[1]
    weights = first.weights(), second.weights()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


@needs_frameworks("jax")
@pytest.mark.parametrize(("settings", "words"), [
    ({"accumulate": 2}, "leave out --accumulate"),
    ({"precision": "fp16"}, "use bf16"),
    ({"kernel": "cudnn"}, "leave out --kernel"),
    ({"checkpointing": "on"}, "own loop"),
    ({"devices": 2}, "one device"),
])  # fmt: skip
def test_what_nnx_does_not_have_is_unsupported(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        interfaces.prepare(Cell("imdb_lstm", "jax", interface="nnx", **settings), "cpu", 0)


def test_nnx_is_an_interface_of_jax() -> None:
    for look in (interfaces.of, interfaces.module):
        with pytest.raises(UnsupportedError, match="nnx is an interface of jax, not of pytorch"):
            look(Cell("imdb_lstm", "pytorch", interface="nnx"))
    with pytest.raises(UnsupportedError, match=r"cifar100_resnet18 has no file nnx\.py"):
        interfaces.module(Cell("cifar100_resnet18", "jax", interface="nnx"))


@needs_frameworks("jax")
@pytest.mark.slow
@pytest.mark.launches
@pytest.mark.parametrize("workload", ["imdb_lstm", "cifar100_cnn"])
def test_a_launch_carries_all_evidence(workload: str, tmp_path: Path, twins: Path) -> None:
    cell = Cell(workload, "jax", batch=16, size="small", interface="nnx")
    data = str(folder_of(twins, workload.partition("_")[0], "synthetic"))
    record = launch(Job(cell, data, device="cpu", plan=Plan(0.02, 2, 0.2)), tmp_path / "log", 500.0)
    assert record.outcome.ok, record.outcome.reason
    assert record.settings["interface"] == "nnx"
    identity = record.identity
    assert identity is not None
    assert None not in (identity.float64, identity.own)
    assert identity.last is not None
    assert identity.last.equal
    assert identity.last.replayed == 0
    assert identity.optimizer is not None
    assert identity.optimizer < 1e-12
    assert (identity.dropout is None) == (workload == "imdb_lstm")
