"""What keeps large comparisons cheap."""

from __future__ import annotations

import numpy as np
import pytest

from suite.analysis.statistics.inference import quartiles
from suite.report.plots.kinds.bars import throughput
from suite.report.tables.frame import EXCERPT_ROWS, PLOTTED_ROWS_MOST, excerpt
from tests import records
from tests.drawn import said
from tests.records import only


def large(batches: int = 40) -> list[records.Record]:
    return [each for batch in range(1, batches + 1) for each in records.launches(n=1, batch=batch)]


def test_a_plot_of_many_rows_shows_the_fastest_of_each_framework_and_says_so() -> None:
    whole = only([*large(), *(records.failed(each) for each in records.launches(n=1, batch=999))])
    part = excerpt(whole)
    assert len(whole.group.rows) == 123
    assert len(part.group.rows) == len(part.frame) == EXCERPT_ROWS
    for name in ("pytorch", "tensorflow", "jax"):
        held, all_of = (each.frame[each.frame["framework"] == name]["samples_per_s"] for each in (part, whole))
        assert sorted(held) == sorted(all_of.dropna())[-5:]
    assert [row.cell.id for row in part.group.rows] == part.frame["cell"].tolist()
    words = "the 5 fastest rows of each framework; all 123 are in the table"
    assert part.group.constant.startswith(words)
    assert words in said(throughput(part)), "the figure itself says what is left out"


def test_a_plot_of_few_rows_shows_all() -> None:
    whole = only(large(PLOTTED_ROWS_MOST // 3))
    assert excerpt(whole) is whole


def test_of_a_large_table_without_a_launch_that_ended_well_there_is_nothing_to_draw() -> None:
    part = excerpt(only([records.failed(each) for each in large()]))
    assert not any(row.ok for row in part.group.rows)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20])
def test_quartiles_are_numpy_s(n: int) -> None:
    values = np.random.default_rng(n).standard_normal(n).tolist()
    assert list(quartiles(values)) == pytest.approx(np.percentile(values, [25, 50, 75]).tolist(), rel=1e-15)
