"""The order in which pytest runs the launches: block by block, one at a time, each once.

A drift of the machine cancels out of a ratio only where one launch of every cell runs in each block. Plugins that
reorder, repeat or parallelise are refused if an option asks for that. If they are only installed, the order is
restored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.blocks import launch_id
from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL, REPEAT

HERE = Path(__file__).resolve().parents[1]

#: The cell and the number of each launch, by its id.
Launches = dict[str, tuple[Cell, int]]

#: Options of other plugins: their harmless values, and what any other value does.
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "numprocesses": ((None, 0, "0"), "-n of pytest-xdist runs launches side by side"),
    "dist": ((None, "no"), "--dist of pytest-xdist runs launches side by side"),
    "tx": ((None, []), "--tx of pytest-xdist runs launches elsewhere"),
    "workers": ((None, 1, "1"), "--workers of pytest-parallel runs launches side by side"),
    "tests_per_worker": ((None, 1, "1"), "--tests-per-worker of pytest-parallel runs launches side by side"),
    "forked": ((None, False), "--forked of pytest-forked hides what a launch found"),
    "count": ((None, 1), "--count of pytest-repeat repeats launches; --launches asks for more"),
    "reruns": ((None, 0), "--reruns of pytest-rerunfailures repeats launches; --resume goes on with a run"),
    "flake_finder_enable": ((None, False), "--flake-finder of pytest-flakefinder repeats launches"),
    "randomly_seed": ((None, "default"), "--randomly-seed of pytest-randomly reorders launches; --seed orders them"),
    "random_order": ((None, False), "--random-order of pytest-random-order reorders launches; --seed orders them"),
    "random_order_bucket": ((None, "module"), "--random-order-bucket reorders launches; --seed orders them"),
    "random_order_seed": ((None,), "--random-order-seed reorders launches; --seed orders them"),
    "reverse": ((None, False), "--reverse of pytest-reverse reorders launches"),
}


def broken_by(config: pytest.Config) -> str:
    """Why the launches would not run as planned, in a line that names the way out; empty where they will."""
    if not _names_suite(config):
        return ""
    for option, (harmless, reason) in REFUSED.items():
        value = config.getoption(option, None)
        if value not in harmless and not (option == "random_order_seed" and not config.getoption("random_order", None)):
            return f"{reason}; leave it out, since launches must run one after the other, in blocks"
    if "PYTEST_XDIST_WORKER" in os.environ:
        return "pytest-xdist runs launches side by side; leave out -n"
    if any(config.pluginmanager.hasplugin(name) for name in ("timeout", "pytest_timeout")):
        limits = {
            "--timeout": config.getoption("timeout", None),
            "PYTEST_TIMEOUT": os.environ.get("PYTEST_TIMEOUT"),
            "the setting timeout": config.getini("timeout"),
        }  # the first that is there counts
        for name, value in limits.items():
            if value not in (None, ""):
                why = f"{name} lets pytest-timeout end launches after {value} s; unset it, and limit them by --max-time"
                return why if str(value).strip("0.") else ""
    return ""


def restore(items: list[pytest.Item], test: str, planned: Sequence[str]) -> None:
    """Sort the launches among the items into the planned order; other items keep their places."""
    indices = [at for at, item in enumerate(items) if is_launch(item, test)]
    numbers = {name: number for number, name in enumerate(planned)}
    ordered = sorted((items[at] for at in indices), key=lambda item: numbers[_launch_id(item)])
    for at, item in zip(indices, ordered, strict=True):
        items[at] = item


def replace_cells(session: pytest.Session, test: str, launches: Launches, change: Callable[[Cell], Cell]) -> None:
    """Put launches of changed cells in place of the session's launches; ``launches`` are those of all ids."""
    for at, item in enumerate(session.items):
        if is_launch(item, test):
            cell, number = launches.pop(_launch_id(item))
            session.items[at] = _make_item(item, launches, change(cell), number)


def add_repeats(session: pytest.Session, test: str, launches: Launches) -> None:
    """Add to the end of each block the launches that may take the place of its own; a run passes over most of them."""
    items: list[pytest.Item] = []
    block: list[pytest.Item] = []
    for item in [*session.items, None]:
        number = launches[_launch_id(item)][1] % CONTROL if item and is_launch(item, test) else None
        if block and number != launches[_launch_id(block[0])][1] % CONTROL:
            for one in block:
                cell, launch = launches[_launch_id(one)]
                items.append(_make_item(one, launches, cell, REPEAT + launch))
            block = []
        if item:
            items.append(item)
            block += [item] if number is not None else []
    session.items[:] = items


def _make_item(item: pytest.Item, launches: Launches, cell: Cell, number: int) -> pytest.Item:
    name = launch_id(cell, number)
    launches[name] = (cell, number)
    spec = item.callspec  # type: ignore[attr-defined]
    spec = replace(spec, params=spec.params | {"launch_id": name}, _idlist=[name])
    test: str = item.originalname  # type: ignore[attr-defined]
    return pytest.Function.from_parent(
        item.parent, name=f"{test}[{name}]", callspec=spec, fixtureinfo=item._fixtureinfo, originalname=test,  # type: ignore[attr-defined]
    )  # fmt: skip


def planned_ids(items: Sequence[pytest.Item], test: str, planned: Sequence[str]) -> list[str]:
    """The ids of the launches among the items, in the order in which they are to run."""
    chosen = {_launch_id(item) for item in items if is_launch(item, test)}
    return [name for name in planned if name in chosen]


def _names_suite(config: pytest.Config) -> bool:
    paths = [Path(config.invocation_params.dir, str(argument).partition("::")[0]).resolve() for argument in config.args]
    return any(place == HERE or HERE in place.parents or place in HERE.parents for place in paths)


def is_launch(item: pytest.Item, test: str) -> bool:
    """Whether an item is a launch of the suite."""
    return getattr(item, "originalname", "") == test and hasattr(item, "callspec")


def _launch_id(item: pytest.Item) -> str:
    name: str = item.callspec.params["launch_id"]  # type: ignore[attr-defined]
    return name
