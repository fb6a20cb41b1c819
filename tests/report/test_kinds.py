"""Which plots are drawn of which records, and what each kind says on itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from suite.plan.cell import Loader
from suite.record.record import Record
from suite.report import plots
from suite.report.tables.frame import Table
from tests import records
from tests.drawn import said
from tests.profiles import all_profiled
from tests.records import HOSTILE, everything, only, tables, watched

USUAL = ("throughput", "phases", "step-times", "first-step")


def kinds(held: Sequence[Record]) -> list[str]:
    """The kinds of plot that there are of these, in order."""
    return [kind for kind, _, make in plots.KINDS if make(only(held)) is not None]


def test_every_kind_is_drawn_of_a_run_that_has_everything() -> None:
    assert kinds(everything()) == [kind for kind, *_ in plots.KINDS]


@pytest.mark.parametrize(
    ("held", "more"),
    [
        (records.launches(), set()),
        (records.mixed(), {"speed-up", "batch", "break-even"}),
        ([*records.launches(), *records.launches(precision="bf16")], {"speed-up"}),
        ([*records.launches(), *records.launches(batch=64)], {"speed-up", "batch"}),
        ([*records.launches(), *records.launches(["pytorch"], compile="compile")], {"speed-up", "break-even"}),
        ([r for n in (1, 2) for r in records.launches(loader=Loader("workers", n))], {"scaling"}),
        ([watched(r, gpu=False) for r in records.launches()], {"timeline"}),
        (all_profiled(records.launches()), {"categories", "roofline"}),
        ([replace(r, settings={}) for r in all_profiled(records.launches())], {"categories"}),
        ([watched(r) for r in records.launches()], {"timeline", "energy"}),
    ],
)  # fmt: skip
def test_a_plot_is_drawn_where_the_records_hold_what_it_needs(held: list[Record], more: set[str]) -> None:
    assert kinds(held) == [kind for kind, *_ in plots.KINDS if kind in {*USUAL, *more}]


@pytest.fixture(scope="module")
def hostile() -> list[Table]:
    """Tables that every kind can be drawn of, with names that would break out of anything."""
    machine = {"machine": {"cpu": HOSTILE, "cores": 2, "gpus": [HOSTILE, "\u4e2d\U0001f600"]}}
    named = {"environment": machine, "started": HOSTILE, "run": {"id": HOSTILE}, "flags": (HOSTILE,)}
    return tables([replace(record, **named) for record in everything(n=1)])


def test_no_kind_breaks_on_hostile_names(hostile: list[Table], tmp_path: Path) -> None:
    drawn = plots.draw(hostile, tmp_path, ("svg",))
    assert [path.stem for path in drawn] == [f"{kind}-cifar100_cnn-full" for kind, *_ in plots.KINDS]
    for path in drawn:
        assert path.stat().st_size > 5_000
        assert "<script" not in path.read_text()


@pytest.mark.slow
def test_every_kind_gives_the_same_bytes_of_the_same_input(hostile: list[Table], tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        plots.draw(hostile, folder, plots.WRITERS)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


@pytest.mark.parametrize("kind", [kind for kind, *_ in plots.KINDS])
def test_every_kind_says_what_it_needs_to_travel_alone(kind: str) -> None:
    make = next(make for name, _, make in plots.KINDS if name == kind)
    words = said(make(only([replace(r, data={**r.data, "kind": "synthetic"}) for r in everything()])))
    for expected in (
        "CIFAR-100 CNN",
        "full size",
        "n = 2 launch",
        "Example CPU 3000",
        "2026-03-01",
        "SYNTHETIC DATA",
    ):
        assert expected in words, expected


def test_a_plot_is_described_in_words() -> None:
    told = plots.alt_text(Path("speed-up-cifar100_cnn-full.png"))
    assert told == "Bar chart of each cell's throughput relative to its framework's base cell: cifar100_cnn-full"
    assert plots.alt_text(Path("else.png")) == "else"
