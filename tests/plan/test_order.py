"""Launches run one at a time, in their blocks, each once, whatever other plugins are there."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from suite.plan.blocks import blocks
from suite.plan.matrix import matrix
from suite.session.journal import read
from tests.sessions import Suite, refused

SMOKE = matrix("smoke")
LAUNCHES = 2
PLANNED = [f"{cell.workload} {cell.framework} {cell.size} {n}" for cell, n in blocks(SMOKE.cells, LAUNCHES, 0)]

#: A plugin of somebody's that turns the order of tests round, first or last of all.
REVERSING = """
import pytest

@pytest.hookimpl({when}=True)
def pytest_collection_modifyitems(items):
    items.reverse()

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if {late}:
        session.items.reverse()
"""


@pytest.fixture
def suite(suite: Suite) -> Suite:
    suite.plugins = True
    return suite


def with_plugin(suite: Suite, **how: object) -> None:
    (suite.folder / "reversing.py").write_text(REVERSING.format(**how))
    suite.first = f"import sys; sys.path.insert(0, {str(suite.folder)!r})"


@pytest.mark.parametrize("when", [pytest.param("tryfirst", marks=pytest.mark.slow), "trylast"])
def test_plugins_that_are_merely_there_change_no_order(suite: Suite, when: str) -> None:
    with_plugin(suite, when=when, late=False)
    done = suite("suite", "-p", "reversing", f"--launches={LAUNCHES}")
    assert done.status == 0, done.output
    assert done.launched == PLANNED


@pytest.mark.skipif(not find_spec("pytest_randomly"), reason="pytest-randomly is not installed here")
def test_with_pytest_randomly_installed_a_plain_run_keeps_its_blocks(suite: Suite) -> None:
    done = suite("suite", f"--launches={LAUNCHES}")
    assert done.status == 0, done.output
    assert "randomly" in done.output
    assert done.launched == PLANNED


def test_an_order_that_was_changed_all_the_same_ends_the_run_in_one_line(suite: Suite) -> None:
    with_plugin(suite, when="trylast", late=True)
    done = suite("suite", "-p", "reversing", "--benchmark-save")
    assert done.status == 4, done.output
    (line,) = [line for line in done.output.splitlines() if "is not the next one of its block" in line]
    assert "-p no:NAME" in line
    assert "Traceback" not in done.output
    assert not done.launched


@pytest.mark.parametrize(("plugin", "option", "words"), [
    ("xdist", "-n2", "pytest-xdist runs launches side by side"),
    ("xdist", "--dist=load", "pytest-xdist runs launches side by side"),
    ("pytest_randomly", "--randomly-seed=7", "pytest-randomly reorders launches"),
    ("pytest_rerunfailures", "--reruns=2", "repeats launches"),
])  # fmt: skip
def test_plugins_that_were_asked_to_break_the_blocks_are_refused(
    suite: Suite, plugin: str, option: str, words: str
) -> None:
    if not find_spec(plugin):
        pytest.skip(f"{plugin} is not installed here")
    refused(suite("suite", option, "--benchmark-save"), words)


def test_a_part_of_a_run_keeps_the_order_and_so_does_going_on(suite: Suite) -> None:
    done = suite("suite", "-k", "imdb", f"--launches={LAUNCHES}")
    assert done.launched == [line for line in PLANNED if line.startswith("imdb")]
    done = suite("suite", "--resume", f"--launches={LAUNCHES}")
    assert done.status == 0, done.output
    _, records, _ = read(*done.journals)
    assert sorted(f"{r.cell.workload} {r.cell.framework} full {r.launch}" for r in records) == sorted(PLANNED)
