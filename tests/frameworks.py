"""The three frameworks side by side, for the proofs that they compute the same.

Frameworks are imported when they are first used, so that collecting the tests imports none. Every `Found` is computed
once in a session, however many tests look at it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, WORKLOADS, Cell
from suite.plan.settings.frameworks import VARIABLES
from suite.worker.evidence.fingerprint import STEPS, at_proof_rate
from suite.worker.frameworks import UnsupportedError, import_framework
from tests.isolation import in_own_process
from workloads.data import synthetic
from workloads.data.augment import Batches
from workloads.data.dataset import Array, DataSet
from workloads.spec import WorkloadSpec, specification

PAIRS = tuple(combinations(FRAMEWORKS, 2))

for _variables in VARIABLES.values():
    os.environ.update(_variables)

#: For tests that import frameworks: those that the arguments name, else those of the test's parameters, else all three.
#: `tests/conftest.py` skips a test that needs one which is not installed.
needs_frameworks = pytest.mark.frameworks

needs_deepspeed = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs the extra deepspeed")

#: NVIDIA DALI is an extra.
has_dali = bool(find_spec("nvidia") and find_spec("nvidia.dali"))

each_workload = pytest.mark.parametrize("workload", WORKLOADS)
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)

#: What every run of the tests puts together: the LSTM, which compiles soonest, in all frameworks, the CNN where it
#: compiles soon, and each other workload in PyTorch. The other pairs are slow tests.
COVERED = {
    ("imdb_lstm", "pytorch"), ("imdb_lstm", "tensorflow"), ("imdb_lstm", "jax"), ("cifar100_cnn", "pytorch"),
    ("cifar100_cnn", "tensorflow"), ("cifar100_resnet18", "pytorch"), ("gpt_small", "pytorch"),
    ("imdb_transformer", "pytorch"),
}  # fmt: skip


def cells(workloads: Iterable[str] = WORKLOADS, also: Iterable[tuple[str, str]] = ()) -> pytest.MarkDecorator:
    """Parametrises a test with these workloads in each framework; those beyond `COVERED` and ``also`` are slow."""
    quick = COVERED | {*also}
    pairs = [(workload, framework) for workload in workloads for framework in FRAMEWORKS]
    marked = [pytest.param(*pair, marks=[] if pair in quick else [pytest.mark.slow]) for pair in pairs]
    return pytest.mark.parametrize(("workload", "framework"), marked)


each_cell = cells()
small_cells = cells(("cifar100_cnn", "imdb_lstm"))


@dataclass(frozen=True)
class Found:
    """What a framework computed: output and gradient at the first batch, then some steps and the weights on the way."""

    logits: Array
    loss: float
    gradients: dict[str, Array]
    losses: Array
    before: dict[str, Array]
    early: dict[str, Array]
    after: dict[str, Array]

    @property
    def updates(self) -> dict[str, Array]:
        return {name: self.after[name] - self.before[name] for name in self.before}


def framework_of(name: str) -> Any:
    """The suite's own file for a framework, imported as a launch imports it."""
    return import_framework(name)


def module(workload: str, framework: str) -> ModuleType:
    """The workload's file for a framework."""
    framework_of(framework)
    return import_module(f"workloads.{workload}.{framework}")


@cache
def data(name: str, samples: int = 200) -> DataSet:
    """A little of the synthetic twin."""
    return synthetic.generate(name, samples, 20 if name == "imdb" else 100)


def narrow(workload: str) -> WorkloadSpec:
    """Size small with few channels, units and stages: for what depends on no width, and takes long in float64."""
    changes: dict[str, dict[str, Any]] = {
        "cifar100_cnn": {"channels": (4, 8, 8), "hidden": 16},
        "cifar100_resnet18": {"channels": (4, 8)},
        "gpt_small": {"length": 12, "heads": 2, "width": 16, "hidden": 32},
        "imdb_lstm": {"length": 20, "units": 8},
        "imdb_transformer": {"length": 20, "positions": 24, "heads": 2, "width": 16, "hidden": 32},
    }
    return at_proof_rate(replace(specification(workload, "small"), **changes[workload]))


def batches(spec: WorkloadSpec, batch: int, seed: int = 0, of: DataSet | None = None) -> Batches:
    """The training batches as a worker makes them."""
    return Batches(spec.arrange(of or data(spec.data)), batch, seed, getattr(spec, "length", None))


@contextmanager
def training(
    workload: str, framework: str, precision: str = "fp64", size: str = "small", *,
    spec: WorkloadSpec | None = None, weights: dict[str, Array] | None = None, dropout: bool = False,
    rates: Array | None = None,
) -> Iterator[Any]:  # fmt: skip
    """A framework's `Training` on the CPU, from the spec at its fingerprint's rate unless another is given.

    At the end the framework's global switches are as they were.
    """
    spec = spec or at_proof_rate(specification(workload, size))
    code = framework_of(framework)
    cell = Cell(workload, framework, precision=precision, size=size)
    with switches_restored(framework):
        try:
            code.prepare(cell, "cpu", 0)
        except UnsupportedError as reason:
            pytest.skip(str(reason))
        weights = weights or spec.reference_weights(0)
        running = code.Training(cell, spec, module(workload, framework), weights, "cpu", dropout=dropout, rates=rates)
        if framework == "jax":  # what a step returns is bound to its device, and would have the next step compile again
            import jax

            running.state = jax.device_put(running.state, running.device)
        yield running


@contextmanager
def switches_restored(framework: str) -> Iterator[None]:
    if framework != "jax":  # the others' types are the tensors' own
        yield
        return
    import jax

    names = ("jax_enable_x64", "jax_default_matmul_precision")
    values = {name: getattr(jax.config, name) for name in names}
    try:
        yield
    finally:
        for name, value in values.items():
            jax.config.update(name, value)


def compute(running: Any, source: Batches, steps: int) -> Found:
    """Output, loss and gradients at batch 0, then ``steps`` steps of training from batch 0 on."""
    put = [running.put(source[number]) for number in range(steps)]
    before = running.weights()
    logits = np.asarray(running.logits(put[0])).reshape(source.batch, -1)
    loss, gradients = running.gradients(put[0])
    losses = [running.step(batch) for batch in put[:STEPS]]
    early = running.weights()
    losses += [running.step(batch) for batch in put[STEPS:]]
    return Found(logits, loss, gradients, np.array(running.read(losses)), before, early, running.weights())


@cache
@in_own_process
def found(
    workload: str, framework: str, precision: str, size: str, batch: int, steps: int,
    change: Callable[[Any], None] | None = None, spec: WorkloadSpec | None = None,
) -> Found:  # fmt: skip
    """What a framework computes, with ``change`` done to its `Training` first, or from another spec."""
    with training(workload, framework, precision, size, spec=spec) as running:
        if change:
            change(running)
        return compute(running, batches(spec or specification(workload, size), batch), steps)


def distance(one: Array | float, other: Array | float) -> float:
    """Relative distance in the L2 norm, ``|one - other| / max(|one|, |other|)``."""
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    assert a.shape == b.shape, f"{a.shape} against {b.shape}"
    largest = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    return float(np.linalg.norm(a - b)) / largest if largest else 0.0


def distances(one: dict[str, Array], other: dict[str, Array]) -> dict[str, float]:
    """Distance of every tensor; both must have the same ones."""
    assert one.keys() == other.keys()
    return {name: distance(one[name], other[name]) for name in one}


def assert_within(found: dict[str, float], tolerance: float) -> None:
    """All distances are within the tolerance; the message names the worst tensor."""
    name = max(found, key=lambda each: found[each])
    assert found[name] <= tolerance, f"{name} is off by {found[name]:.1e}, more than {tolerance:.0e}"
