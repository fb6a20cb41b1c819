"""What a mark may call best: significantly, among rows that may be compared, and all that tie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.record.record import Record
from suite.report.plots.kinds.bars import throughput
from suite.report.tables.frame import Table
from tests import records
from tests.drawn import panels, said
from tests.records import replace
from tests.shown import in_markdown, terminal

CELL = Cell("cifar100_cnn", "pytorch", batch=32)
SPEEDS = {"pytorch": 1.0, "tensorflow": 1.0, "jax": 0.8}


def ran(cell: Cell, speed: float, n: int = 6, noise: float = 0.003, **changes: object) -> list[Record]:
    """Launches of a cell at so many times the usual speed, with a little noise."""
    made = []
    for launch in range(n):
        draw = np.random.default_rng([launch, *cell.id.encode()]).standard_normal()
        step_s = 1e-3 * cell.batch / speed * float(np.exp(noise * draw))
        phases = {name: records.phase(step_s, (0.0).__float__) for name in ("train", "compute", "input")}
        record = records.record(cell.framework, launch, workload=cell.workload)
        made.append(replace(record, cell=cell, phases=phases, compile_s=None, first_step_s=step_s, **changes))
    return made


def rows(held: Sequence[Record], column: str = "samples_per_s") -> set[str]:
    """The cells that are marked."""
    made: Table = records.only(held)
    return {cell.cell for cell in made.cells if column in cell.best}


def three(**changes: object) -> list[Record]:
    return [record for name, speed in SPEEDS.items() for record in ran(CELL.but(framework=name), speed, **changes)]


def named(*frameworks: str) -> set[str]:
    return {CELL.but(framework=name).id for name in frameworks}


def test_the_best_and_all_that_tie_with_it_are_marked() -> None:
    assert rows(three()) == named("pytorch", "tensorflow")
    assert rows(three(), "step_ms_median") == named("pytorch", "tensorflow"), "of times the least"


@pytest.mark.parametrize("changes", [{"n": 5}, {"noise": 0.3}])
def test_few_launches_or_much_noise_have_no_best(changes: dict[str, float]) -> None:
    assert rows(three(**changes)) == set()


def test_where_nobody_falls_behind_there_is_no_best() -> None:
    assert rows([*ran(CELL, 1.0), *ran(CELL.but(framework="jax"), 1.01)]) == set(), "one percent is within the margin"


def test_rows_of_another_batch_or_precision_are_no_rivals() -> None:
    base = [*ran(CELL, 1.0), *ran(CELL.but(framework="jax"), 0.8)]
    for other in (CELL.but(batch=512), CELL.but(precision="bf16")):
        assert rows([*base, *ran(other, 9.0)]) == {CELL.id}
        both = [*base, *ran(other, 9.0), *ran(other.but(framework="jax"), 7.0)]
        assert rows(both) == {CELL.id, other.id}, "a best for each"


def test_what_is_not_ranked_is_not_marked() -> None:
    held = three()
    wrong = [
        replace(record, identity=replace(record.identity, losses=tuple(2 * x for x in record.identity.losses)))
        if record.cell.framework == "pytorch" and record.identity
        else record
        for record in held
    ]
    assert CELL.id not in rows(wrong)


def test_memory_is_marked_where_all_rows_show_the_same_kind() -> None:
    held = [replace(r, memory={"rss_peak_bytes": 10**9 + 10**8 * (r.cell.framework == "jax")}) for r in three()]
    assert rows(held, "peak_memory_bytes") == named("pytorch", "tensorflow")
    mixed = [replace(r, memory={"allocator_peak_bytes": 5}) if r.cell.framework == "jax" else r for r in held]
    assert rows(mixed, "peak_memory_bytes") == set()


def test_one_sign_means_the_same_in_the_terminal_in_markdown_and_in_plots() -> None:
    made = records.only(three())
    lines = terminal(made).splitlines()
    marked = [line.split()[0] for line in lines if line.startswith(tuple(SPEEDS)) and "*" in line.split()[3]]
    assert marked == ["pytorch", "tensorflow"]
    bold = [line for line in in_markdown(made).splitlines() if "**1,0" in line or "**99" in line]
    assert len(bold) == 2
    (panel,) = panels(throughput(made))
    assert {y for y, words in panel.beside.items() if words.endswith("*")} == panel.bold == {0.0, 1.0}
    assert "Star, bold: the significantly fastest of one precision and batch size" in said(throughput(made))
    few = records.only(three(n=3))
    assert "*" not in said(throughput(few))
    assert "**" not in in_markdown(few)
