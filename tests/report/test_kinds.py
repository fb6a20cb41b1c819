"""Which plots are drawn of which records, and what each kind says on itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from suite.plan.cell import Loader
from suite.record.record import Record
from suite.report import plots
from suite.report.plots.kinds import TIMED, find_kinds
from suite.report.tables.frame import Table
from tests import records
from tests.profiles import all_profiled
from tests.records import HOSTILE, complete, only, serving, tables, watched

pytestmark = pytest.mark.drawing

USUAL = ("throughput", "phases", "step-times", "first-step")


def drawn(held: Sequence[Record]) -> list[str]:
    """The kinds of plot that there are of these, in order."""
    table = only(held)
    return [kind.name for kind in find_kinds(TIMED) if kind.chart(table) is not None]


def test_every_kind_is_drawn_of_a_run_that_has_everything() -> None:
    assert drawn(complete()) == [kind.name for kind in find_kinds(TIMED)]


@pytest.mark.parametrize(
    ("held", "more"),
    [
        (records.launches(), set()),
        (records.mixed(), {"speed-up", "batch", "break-even"}),
        ([*records.launches(), *records.launches(precision="bf16")], {"speed-up"}),
        ([*records.launches(), *records.launches(batch=64)], {"speed-up", "batch"}),
        ([*records.launches(), *records.launches(["pytorch"], compile="compile")], {"speed-up", "break-even"}),
        ([r for n in (1, 2) for r in records.launches(loader=Loader("workers", n))], {"scaling"}),
        ([r for n in (1, 2) for r in records.launches(threads=n)], {"threads"}),
        ([r for n in (1, 2) for r in records.launches(cores=n)], {"cores"}),
        ([*map(serving, records.launches())], {"latencies"}),
        ([watched(r, gpu=False) for r in records.launches()], {"timeline"}),
        (all_profiled(records.launches()), {"categories", "roofline"}),
        ([replace(r, settings={}) for r in all_profiled(records.launches())], {"categories"}),
        ([watched(r) for r in records.launches()], {"timeline", "energy"}),
    ],
)  # fmt: skip
def test_a_plot_is_drawn_where_the_records_hold_what_it_needs(held: list[Record], more: set[str]) -> None:
    assert drawn(held) == [kind.name for kind in find_kinds(TIMED) if kind.name in {*USUAL, *more}]


@pytest.fixture(scope="module")
def hostile() -> list[Table]:
    """Tables that every kind can be drawn of, with names that would break out of anything."""
    machine = {"machine": {"cpu": HOSTILE, "cores": 2, "gpus": [HOSTILE, "\u4e2d\U0001f600"]}}
    named = {"environment": machine, "started": HOSTILE, "run": {"id": HOSTILE}, "flags": (HOSTILE,)}
    return tables([replace(record, **named) for record in complete(n=1)])


def test_no_kind_breaks_on_hostile_names(hostile: list[Table], tmp_path: Path) -> None:
    pictures = plots.draw(hostile, [], tmp_path, ("svg",))
    assert [each.name for each in pictures] == [
        "hero",
        *(f"{kind.name}-cifar100_cnn-full" for kind in find_kinds(TIMED)),
    ]
    for each in pictures:
        assert (tmp_path / f"{each.name}.svg").read_text() == f"{each.svg}<!-- {plots.MARK} -->\n"
        assert len(each.svg) > 3_000
        assert "<script" not in each.svg


@pytest.mark.slow
def test_every_kind_gives_the_same_bytes_of_the_same_input(hostile: list[Table], tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        plots.draw(hostile, [], folder, ("png", "svg"))
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
