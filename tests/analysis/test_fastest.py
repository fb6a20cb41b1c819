"""Who is fastest: the order of a contest, and that it never contradicts its own tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.fastest import FastestBySetting, find_fastest
from suite.analysis.statistics.multiple_testing import ratios
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.report.plots.kinds.bars import throughput
from suite.report.tables.frame import Table
from suite.report.text import fastest
from tests import records
from tests.drawn import panels, said
from tests.records import replace
from tests.shown import grouped
from tests.studies import answers

#: Small differences from block to block, not all alike.
NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015)


def contested(held: Sequence[Record]) -> list[FastestBySetting]:
    one = grouped(held)
    identities = verdicts({row.key: row.ok for row in one.rows})
    return find_fastest(one, identities)


def blocks(seconds: Mapping[str, Sequence[float]], **changes: object) -> list[Record]:
    """A launch per framework and block with these step times."""
    return [
        records.timed(step_s, name, block, **changes)
        for name, times in seconds.items()
        for block, step_s in enumerate(times)
    ]


def noisy(step_s: float, n: int = 6, turn: int = 0) -> list[float]:
    return [step_s * (1 + NOISE[(block * (turn + 1) + turn) % 6]) for block in range(n)]


def disagreeing() -> list[Record]:
    """JAX is decidedly slower in the six blocks that both have, and its median is higher thanks to seven fast ones."""
    return blocks({"pytorch": noisy(2.0), "jax": [*(1.1 * x for x in noisy(2.0, turn=1)), *[1.1] * 7]})


def test_a_row_that_is_decidedly_faster_stands_before_the_other_whatever_the_medians() -> None:
    (contest,) = contested(disagreeing())
    assert contest.gaps["pytorch", "jax"].verdict == "faster"
    assert (contest.top, contest.leaders, contest.behind) == ("pytorch", ["pytorch"], ["jax"])
    assert fastest.line(contest, "here").startswith("here (6 launches): PyTorch is fastest: 1.10x JAX (")


def test_untested_rows_stand_in_the_order_of_their_shared_blocks() -> None:
    held = blocks({"pytorch": [2.0, 2.0], "jax": [2.2, 2.2, 1.0, 1.0, 1.0]})
    (contest,) = contested(held)
    assert contest.top == "pytorch"
    assert (contest.gaps["pytorch", "jax"].value or 0) > 1


def partly() -> FastestBySetting:
    """TensorFlow ties with both others, of which PyTorch is decidedly faster than JAX."""
    wide = [1.0, 1.25, 0.85, 1.2, 0.8, 0.97]
    (contest,) = contested(blocks({"pytorch": noisy(1.0), "tensorflow": wide, "jax": noisy(1.06, turn=1)}))
    assert contest.gap("pytorch", "jax").verdict == "faster"
    return contest


def test_a_decided_pair_among_leaders_that_tie_is_told() -> None:
    contest = partly()
    # The one with the highest median of the two that nothing beats leads.
    assert contest.leaders == ["tensorflow", "pytorch", "jax"]
    text = fastest.line(contest, "here")
    assert "): no framework is decidedly fastest: TensorFlow 1.0" in text
    assert "x JAX (0.8" in text
    assert "), PyTorch 1.06x JAX (1.0" in text


def test_ratios_keep_the_p_value_of_their_own_test_also_where_rows_share_no_blocks() -> None:
    ours, theirs = noisy(1.0), noisy(1.1, turn=1)
    held = [*blocks({"pytorch": ours}, run={"id": "a"}), *blocks({"jax": theirs}, run={"id": "b"})]
    one = grouped(held, across=True)
    formed = ratios(one, "pytorch", verdicts({row.key: row.ok for row in one.rows}))
    (raw,) = [ratio.raw for ratio in formed.values() if ratio.raw is not None]
    assert raw == pytest.approx(statistics.welch([1 / x for x in theirs], [1 / x for x in ours]).p)


def test_every_pair_of_frameworks_has_a_test() -> None:
    (contest,) = contested(blocks({"pytorch": noisy(1.0), "tensorflow": noisy(1.2), "jax": noisy(1.5, turn=1)}))
    assert {gap.tests for gap in contest.gaps.values()} == {3}
    assert all(gap.raw is not None and gap.p is not None and gap.raw <= gap.p for gap in contest.gaps.values())


def test_a_run_decides_its_ratios_whatever_is_loaded_with_it() -> None:
    near = blocks({"pytorch": noisy(1.0), "jax": [1.06, 1.03, 1.08, 1.05, 1.02, 1.09]})
    others = [
        each for size in range(1, 9) for each in blocks({"pytorch": noisy(1.0), "jax": noisy(1.0, turn=1)}, batch=size)
    ]

    def judge(*runs: Sequence[Record]) -> statistics.Estimate:
        launches = [Launch(each, f"run-{at}", f"file-{at}") for at, held in enumerate(runs) for each in held]
        (one,) = group(launches)
        found = ratios(one, None, verdicts({row.key: row.ok for row in one.rows}))
        return found["run-0", near[-1].cell]

    alone, beside, within = judge(near), judge(near, others), judge([*near, *others])
    assert alone == beside
    assert (alone.verdict, alone.tests) == ("slower", 1)
    assert within.verdict == "inconclusive", "more questions of one run take more evidence"
    assert (within.low or 0) < (alone.low or 0) < (alone.high or 0) < (within.high or 0)
    assert (within.alone_low, within.alone_high) == (alone.low, alone.high)


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


def test_an_answer_is_seldom_wrong_thanks_to_one_correction_over_all_its_tests() -> None:
    apart, together = answers.wrong(answers.MODES, 60)
    assert together <= 0.05
    assert apart > together, "which is why they are corrected together"


def test_the_fastest_of_several_equal_modes_is_about_one_percent_too_fast() -> None:
    assert 0.005 < answers.bias(2) < answers.bias(3) < 0.011


def told_of(held: Sequence[Record]) -> tuple[list[FastestBySetting], str]:
    found = contested(held)
    return found, " ".join([*(fastest.short(each, "here") for each in found), fastest.card(found)])


@pytest.mark.parametrize("flag", ["contaminated", "unsteady", "disturbed"])
@pytest.mark.parametrize(("n", "own"), [(1, 1), (6, 1), (1, 6)])
def test_no_headline_rests_on_a_single_flagged_launch(flag: str, n: int, own: int) -> None:
    """A run on a busy machine was said to be 403 times as fast as one launch of JAX, at 4 samples/s."""
    first, *others = blocks({"jax": [8.0] * own})
    fast = blocks({"pytorch": noisy(0.02, n), "tensorflow": noisy(0.024, n, turn=1)})
    ((contest,), words) = told_of([replace(first, flags=(flag,)), *others, *fast])
    assert (contest.top, contest.rivals, {*contest.unranked}) == ("pytorch", ["tensorflow"], {"jax"})
    assert contest.gap("pytorch", "tensorflow").value == pytest.approx(1.2, rel=0.01)
    assert not re.search(r"[34]\d\d", words)
    sound, words = told_of([first, *others, *fast])
    assert sound[0].rivals == ["tensorflow", "jax"], "without a flag it is told"
    assert "not tested" in words or "partly tested" in words


@pytest.mark.parametrize("n", [2, 5, 6, 10])
def test_one_flagged_launch_among_several_decides_nothing(n: int) -> None:
    """Neither a difference that is not there, nor the size of one that is; untested, its range is told."""
    for factor in (1.0, 1.5):
        slow = blocks({"jax": [8.0, *noisy(0.02 * factor, n, turn=1)[1:]]})
        slow[0] = replace(slow[0], flags=("contaminated",))
        ((contest,), words) = told_of([*blocks({"pytorch": noisy(0.02, n)}), *slow])
        gap = contest.gap("pytorch", "jax")
        assert (gap.verdict in ("", "inconclusive")) or (factor > 1 and gap.verdict == "faster")
        assert gap.verdict or n < 6
        assert n == 2 or gap.value == pytest.approx(factor, rel=0.15)
        assert n > 2 or words.count(fastest.span([gap.low or 0.0, gap.high or 0.0], "\u2013")) == 2


def test_untested_nobody_ran_fastest_that_was_level_in_a_launch() -> None:
    level = blocks({"pytorch": [1.0, 1.1], "tensorflow": [1.1, 1.0]})
    ((contest,), words) = told_of([*level, *blocks({"jax": [2.0, 2.2]})])
    assert ({*contest.leaders}, contest.trailing) == ({"pytorch", "tensorflow"}, ["jax"])
    assert "PyTorch or TensorFlow ran fastest" in words
    ((contest,), words) = told_of(level)
    assert "ran fastest" not in words


def test_the_fastest_without_a_ratio_hides_no_order_of_the_others() -> None:
    (alone,) = blocks({"jax": [0.001]})
    others = blocks({"pytorch": noisy(0.02), "tensorflow": noisy(0.024, turn=1)})
    ((contest,), words) = told_of([replace(alone, flags=("contaminated",)), *others])
    assert (contest.top, contest.behind, {*contest.unranked}) == ("pytorch", ["tensorflow"], {"jax"})
    assert "JAX" not in words


def test_plots_mark_the_rows_that_are_fastest_and_none_of_too_few_launches() -> None:
    (panel,) = panels(throughput(records.only(three())))
    assert {y for y, words in panel.beside.items() if words.endswith("*")} == panel.bold == {0.0, 1.0}
    assert "*" not in said(throughput(records.only(three(n=3))))
