"""Every setting of the catalog is read back from what ran, by every framework of the catalog, whatever was asked for.

A setting that is declared and that nothing reads back, or whose reading repeats what the cell asks for, fails here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from suite.catalog.setting import Count
from suite.catalog.settings import OF_SCRIPTS, SETTINGS
from suite.plan.cell import FRAMEWORKS, WORKLOADS, Cell, Loader
from suite.worker import interfaces
from suite.worker.frameworks import UnsupportedError
from suite.worker.launch.applied import NotAppliedError, Ran, compare, read_back
from suite.worker.launch.probe import denormals, precision_errors
from tests.frameworks import batches, each_framework, framework_of, narrow, needs_frameworks, switches_restored
from workloads.spec import UnavailableKernelError

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

#: What a process has from its start, or what needs several of them or a GPU, with the tests that launch some.
ELSEWHERE = {
    "devices": "tests/worker/test_devices_launch.py", "strategy": "tests/worker/test_devices_launch.py",
    "recipe": "tests/worker/test_evidence_last.py", "allocator": "tests/cuda", "release": "tests/releases",
    "cache": "tests/worker/test_compile_cache.py",
    **dict.fromkeys(("tuning", "threads", "cores", "bind"), "tests/worker/test_read_back.py"),
}  # fmt: skip

#: Values of settings that have no list of them, and of one in another order: Keras has one backend in a process.
VALUES = {
    "batch": (4, 8), "accumulate": (1, 2), "loader": (Loader(), Loader("workers", 1)),
    "interface": ("native", "nnx", "lightning", "keras"),
}  # fmt: skip
#: Two settings of which a batch shows the product.
TITLES = dict.fromkeys(("batch", "accumulate"), "(batch size|accumulation)")


def cell_of(workload: str, framework: str, **settings: Any) -> Cell:
    return Cell(workload, framework, **({"batch": 4, "size": "small", "tuning": "default"} | settings))


@contextmanager
def ran(cell: Cell) -> Iterator[Ran]:
    """What a launch of the cell would train with after a step, in this process."""
    framework, source = framework_of(cell.framework), batches(narrow(cell.workload), cell.effective_batch)
    if metrics := sys.modules.get("torch._inductor.metrics"):
        metrics.reset()  # of other tests
        sys.modules["torch._dynamo.utils"].counters.clear()
    with switches_restored(cell.framework):
        device, settings = framework.prepare(cell, "cpu", 0)
        module = interfaces.module(cell)
        interfaces.prepare(cell, device, 0)
        make = (framework if interfaces.native(cell) else interfaces.load_interface(cell)).Training
        spec = replace(narrow(cell.workload), size=cell.size)
        training = make(cell, spec, module, spec.reference_weights(0), device, seed=0)
        loaders = import_module(f"suite.worker.loaders.{cell.framework}")
        with closing(loaders.batches(cell, source, device, training.put)) as loader:
            batch = next(loader)
            training.compile(batch)
            training.fence(training.step(batch))
            measured = {
                "precision_errors": precision_errors(cell, framework, device),
                "denormals": denormals(cell, framework, device),
            }
            subject = SimpleNamespace(
                framework=framework, tools=interfaces.tools(cell), device=device, spec=spec, recipe=None
            )
            yield Ran(subject, training, batch, loader, settings | measured, {})


@each_framework
def test_every_setting_is_read_back(framework: str) -> None:
    with ran(cell_of("imdb_lstm", framework)) as made:
        read = read_back(made, made.training.cell)
    assert not [name for name in SETTINGS if name not in {*read, *OF_SCRIPTS}], "declared, and read back by nothing"


def values_of(name: str) -> tuple[Any, ...]:
    setting = SETTINGS[name]
    values = VALUES.get(name) or ((1, 2) if isinstance(setting, Count) else setting.choices)
    return tuple(value for value in values if not setting.leaves_open(value))


#: Inductor compiles for longest; in every run `test_read_back` launches it turned off.
READ = [
    pytest.param(framework, name, marks=[pytest.mark.slow] if (framework, name) == ("pytorch", "compile") else [])
    for framework in FRAMEWORKS
    for name in SETTINGS
    if name not in ("workload", "framework", *ELSEWHERE, *OF_SCRIPTS)
]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # Inductor calls it
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has imported it
@pytest.mark.parametrize(("framework", "name"), READ)
def test_what_is_read_is_what_ran_and_not_what_was_asked_for(framework: str, name: str) -> None:
    """Of the first workload and value that the framework takes: the one that ran is read, whatever is asked for."""
    first, *others = values_of(name)
    for workload, value in product(WORKLOADS, others):
        cell = cell_of(workload, framework, **{name: value})
        with ExitStack() as until:
            try:
                made = until.enter_context(ran(cell)) if takes_keras(cell) else None
            except (UnsupportedError, UnavailableKernelError):
                continue
            if made:
                assert read_back(made, cell)
                made.training.cell = cell.but(**{name: first})
                title = TITLES.get(name, SETTINGS[name].title)
                with pytest.raises(NotAppliedError, match=rf"asked for {title} .*, but .* is in force"):
                    read_back(made, made.training.cell)
                return
    pytest.skip(f"{framework} takes one {name} on a CPU")


def takes_keras(cell: Cell) -> bool:
    """Whether the cell does without Keras, whose layers import TensorFlow, or is one of TensorFlow's."""
    return cell.interface != "keras" or cell.framework == "tensorflow"


def test_what_nothing_reads_back_ends_a_launch_where_it_is_not_at_its_default() -> None:
    read = {name: getattr(Cell("imdb_lstm", "jax"), name) for name in SETTINGS} | {"loader": "tuned"}
    del read["checkpointing"]
    compare(Cell("imdb_lstm", "jax"), read, {})
    with pytest.raises(NotAppliedError, match="asked for gradient checkpointing on, which nothing reads back"):
        compare(Cell("imdb_lstm", "jax", checkpointing="on"), read, {})
