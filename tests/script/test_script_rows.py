"""Rows of scripts: along one variable or argument, in steps where no batch was seen, and alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.bottlenecks.watched import find_loading
from suite.analysis.identity.self_checks import find_norms_apart
from suite.analysis.identity.verdicts import UNPROVED, verdicts
from suite.analysis.options import threshold
from suite.analysis.records.load import Launch, LoadError
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics.multiple_testing import ratios
from suite.compare.comparing import group_launches
from suite.compare.options import parse
from suite.plan.settings.tunings import KEPT_MEMORY
from suite.record.parts.profile import Gaps, Operation, Profile, Share
from suite.record.record import Phase, Record, Window
from suite.report.plots import find_charts
from suite.report.screen.short import screen
from suite.report.tables import timed
from suite.report.tables.frame import table
from suite.report.text.answer import answer
from suite.report.text.why import explain_pairs
from suite.script.__main__ import main
from suite.script.answer import answers, find_faster, groups_of
from suite.script.session import Session
from suite.script.variants import Variant, switches, together
from tests import records


def script(step_s: float, variant: str, launch: int, unit: str = "samples", **others: Any) -> Record:
    settings = {"device": "cpu", "effective_batch": 8, "unit": unit, **others}
    made = records.timed(step_s, "jax", launch, workload="script_train", batch=0, variant=variant, settings=settings)
    return replace(made, identity=None)


def launches(steps: Mapping[str, float], n: int = 8, **others: Any) -> list[Launch]:
    due = product(range(n), steps.items())
    found = (script(step_s * (1 + number / 1000), name, number, **others) for number, (name, step_s) in due)
    return [Launch(each, "run-a", "run-a.json") for each in found]


CROSSED = {
    f"OMP_NUM_THREADS={threads}+num-workers={workers}": 0.01 * threads / (1 + workers)
    for threads, workers in product((1, 2), (0, 1))
}


def along(by: str, held: Sequence[Launch], *options: str) -> Group:
    from types import SimpleNamespace

    (one,) = group_launches(SimpleNamespace(launches=held), parse(["--by", by, *options]))  # type: ignore[arg-type]
    return one


@pytest.mark.parametrize(("by", "ratio"), [("env.OMP_NUM_THREADS", 0.5), ("arg.num-workers", 2.0)])
def test_ratios_along_one_name_are_between_rows_alike_in_the_others(by: str, ratio: float) -> None:
    of = along(by, launches(CROSSED))
    formed = ratios(of, None, verdicts({row.key: row.ok for row in of.rows}))
    found = sorted(round(each.value, 6) for each in formed.values() if each.value)
    assert found == sorted([1.0, 1.0, ratio, ratio])
    assert {each.verdict for each in formed.values() if each.value == pytest.approx(ratio)} == {
        "faster" if ratio > 1 else "slower"
    }


def test_interpreters_are_an_axis_to_the_first_or_to_the_one_that_is_named() -> None:
    held = launches({"python=3.11": 0.01, "python=3.12": 0.02})
    of = along("python", held)
    identities = verdicts({row.key: row.ok for row in of.rows})
    for baseline, ratio in ((None, 0.5), ("3.12", 2.0)):
        formed = ratios(of, baseline, identities)
        assert sorted(round(each.value or 0.0, 6) for each in formed.values()) == sorted([1.0, ratio])


def test_a_name_that_no_variant_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(LoadError, match="num-workers=1"):
        along("env.NOTHING", launches(CROSSED))
    with pytest.raises(SystemExit):
        parse(["--by", "environ.X"])


def test_a_run_of_a_script_is_compared_along_its_variants() -> None:
    from types import SimpleNamespace

    options = parse([])
    group_launches(SimpleNamespace(launches=launches(CROSSED)), options)  # type: ignore[arg-type]
    assert options.by == "variant"


def test_where_no_batch_was_seen_nothing_speaks_of_samples() -> None:
    (of,) = group(launches({"": 0.01, "num-samples=3": 0.02}, unit="steps"), "variant")
    found = table(of)
    shown = screen(answer([found]), [found], [], 120, more="more")
    words = [*shown, *timed.view(found).grid.headers, *(repr(chart) for *_, chart in find_charts([found], []))]
    assert any("steps/s" in text for text in words)
    assert not any("samples/s" in text or "samples per second" in text for text in words)
    assert any("num-samples=3" in text for text in shown)


def test_rows_in_samples_and_in_steps_have_no_ratio() -> None:
    held = [*launches({"": 0.01}, unit="steps"), *launches({"num-workers=1": 0.01})]
    (of,) = group(held, "variant")
    formed = ratios(of, None, verdicts({row.key: row.ok for row in of.rows}))
    assert [each.reason for each in formed.values() if not each.value and "steps/s" in each.reason]


def test_a_row_alone_is_told_with_its_throughput() -> None:
    (of,) = group(launches({"": 0.01}, n=2), "variant")
    (line,) = answer([table(of)]).lines
    assert "800 (799" in line


def test_batches_whose_mean_differs_between_launches_are_no_obstacle() -> None:
    held = launches({"": 0.01, "a=1": 0.02})
    odd = [
        Launch(replace(each.record, settings=each.record.settings | {"effective_batch": size}), each.run, "")
        for each, size in zip(held, cycle((7, 8)), strict=False)
    ]
    (of,) = group(odd, "variant")
    assert all(each.value for each in ratios(of, None, verdicts({row.key: row.ok for row in of.rows})).values())


def test_losses_stand_side_by_side_at_the_place_that_all_launches_reached() -> None:
    held = [*launches({"": 0.01}, losses=[3.0, 2.0, 1.0]), *launches({"a=1": 0.01}, losses=[3.0, 2.25])]
    (of,) = group(held, "variant")
    found = verdicts({row.key: row.ok for row in of.rows})
    assert {each.kind for each in found.values()} == {UNPROVED}
    assert [each.detail.rpartition(": ")[2] for each in found.values()] == ["2", "2.25"]


def test_a_loss_that_is_no_number_is_told() -> None:
    (of,) = group(launches({"": 0.01}, losses=[None]), "variant")
    (found,) = verdicts({row.key: row.ok for row in of.rows}).values()
    assert "not finite" in found.detail


def test_what_is_faster_is_tried_together_with_the_fastest_first(tmp_path: Path) -> None:
    steps = {"": 0.03, "one-arena": 0.02, "kept-memory": 0.01, "hugepages": 0.03}
    path = records.save(tmp_path / "0001_script.json", [each.record for each in launches(steps)])
    faster = [row.cell.variant for row, _ in find_faster(path)]
    assert faster == ["kept-memory", "one-arena"]
    script = Variant("", ("python", "train.py"))
    of_all = {each.name: each for each in switches("kept-memory,one-arena,hugepages", "jax", "cpu", script)}
    both = together([of_all[name] for name in faster])
    assert both.name == "kept-memory+one-arena"
    assert both.environment == {**of_all["kept-memory"].environment, **of_all["one-arena"].environment}
    lines = [*answers(path, of_all)]
    assert [line for line in lines if all(f"{name}={value}" in line for name, value in KEPT_MEMORY.items())]


@pytest.mark.parametrize(
    ("norms", "others", "apart"),
    [
        ([2.0, 2.0], [2.0, 2.0000001], 0.0), ([2.0, 2.0], [2.2, 2.2], 0.1), ([2.0], [2.2], 0.0), ([2.0] * 9, [], 0.0),
        ([2.0, 2.1], [2.4, 2.5], 0.0), ([2.0, 2.1, 2.0, 2.1], [2.3, 2.4, 2.3, 2.4], 1 / 12),
        ([2.0, 2.1, 2.0, 2.1], [2.1, 2.2, 2.1, 2.2], 0.0),
    ],
)  # fmt: skip
def test_weights_are_others_where_their_norm_is_farther_off_than_launches(
    norms: list[float], others: list[float], apart: float
) -> None:
    first, second = ([script(0.01, "", 0, weights_norm=norm) for norm in each] for each in (norms, others))
    assert find_norms_apart(first, second) == pytest.approx(apart, rel=0.2)
    assert find_norms_apart(second, first) == pytest.approx(apart, rel=0.2)


def test_a_faster_variant_that_trains_something_else_is_told_and_is_no_winner(tmp_path: Path) -> None:
    held = [
        *launches({"": 0.03, "one-arena": 0.02}, weights_norm=5.0), *launches({"kept-memory": 0.01}, weights_norm=5.5)
    ]  # fmt: skip
    path = records.save(tmp_path / "0001_script.json", [each.record for each in held])
    assert [row.cell.variant for row, _ in find_faster(path)] == ["one-arena"]
    variants = {each.name: each for each in switches("kept-memory,one-arena", "jax", "cpu", Variant("", ("python",)))}
    told = [line for line in answers(path, variants) if line.startswith("kept-memory: after")]
    assert len(told) == 1
    assert "1e-01" in told[0]


def test_what_a_variant_changed_of_a_step_is_told_by_its_profiles(tmp_path: Path) -> None:
    held = [
        replace(record, profile=Profile(4, s, s, {"matrix product": Share(0.01, 3), "optimizer": Share(s - 0.01, 1)}))
        for each in launches({"": 0.03, "kept-memory": 0.02})
        if (s := (record := each.record).phases["train"].step_s)
    ]
    path = records.save(tmp_path / "0001_script.json", held)
    told = [line for line in answers(path, {}) if "matrix product" in line]
    assert ["33%" in told[0], "50%" in told[1]] == [True, True]
    ((pair, _),) = explain_pairs(table(groups_of(path)[0]))
    assert pair.causes
    assert [each.category for each in pair.causes.causes] == ["optimizer"]
    assert pair.causes.causes[0].certain


@pytest.mark.parametrize(
    ("name", "calls", "told"),
    [
        ("Memcpy DtoH (Device -> Pageable)", 2.0, True), ("MemcpyD2H", 1.0, True), ("MemcpyD2H", 0.01, False),
        ("Memcpy HtoD (Pinned -> Device)", 2.0, False),
    ],
)  # fmt: skip
def test_values_that_each_step_fetches_from_the_device_are_told(
    tmp_path: Path, name: str, calls: float, told: bool
) -> None:
    moving = "copy and layout change"
    fetch = Operation(name, moving, 1e-6, calls, "cuda")
    made = Profile(4, 0.03, 0.03, {moving: Share(0.03, calls)}, (fetch,), Gaps(0.1, 1e-6))
    held = [replace(each.record, profile=made) for each in launches({"": 0.03})]
    path = records.save(tmp_path / "0001_script.json", held)
    assert any(".item()" in line for line in answers(path, {})) == told


def test_of_two_that_set_one_variable_otherwise_the_first_counts() -> None:
    one, two = (Variant(name, ("python",), {"A": name, name: "1"}) for name in "xy")
    assert together([one, two]).environment == one.environment


@pytest.mark.parametrize(
    ("variables_of", "budget_s", "tested"), [("AB", 600.0, True), ("AA", 600.0, False), ("AB", 1.0, False)]
)
def test_switches_are_tested_together_unless_they_exclude_each_other_or_time_is_short(
    variables_of: str, budget_s: float, tested: bool
) -> None:
    names = ("x", "y")
    variables = [{variable: name} for variable, name in zip(variables_of, names, strict=True)]
    script = Variant("", ("python", "train.py"))
    tried = [Variant(name, script.command, own) for name, own in zip(names, variables, strict=True)]
    given = ["--try", "all", "--budget", f"{budget_s:g}s", "train.py"]
    session = Session(main.parser().parse_args(given), [script, *tried], took_s=1.0)
    assert session.has_time(names) is tested
    assert [each.name for each in session.variants] == (["", *names] if variables_of == "AA" else ["", "x+y"])


def test_a_threshold_needs_no_word() -> None:
    assert threshold("5%") == threshold("slower=5%") == 0.05


@pytest.mark.parametrize(
    ("alone_s", "loads", "kind"),
    [(1e-5, 0.0, "compute-bound"), (5e-3, 0.0, "poor overlap"), (1e-5, 0.2, "poor overlap")],
)
def test_loading_costs_no_more_than_its_loader_can_take(alone_s: float, loads: float, kind: str) -> None:
    """Steps without loading were 20 % faster, as beside other programs; or looks see a loader that waits for a disk."""
    times = {"compute": 0.008, "input": alone_s}
    phases = {name: Phase((Window(10, 10 * step_s),)) for name, step_s in times.items()}
    held = [
        replace(each, record=replace(each.record, phases=each.record.phases | phases, metrics={"host": {"cores": 2}}))
        for each in launches({"": 0.010}, watched={"loads": loads})
    ]
    (of,) = group(held, by="variant")
    found = bottleneck(of.rows[0], of)
    assert found.kind == kind
    assert (find_loading(of.rows[0], found.loading) > 0) == (kind == "poor overlap")


def test_a_bound_of_loading_decides_nothing() -> None:
    """Steps without loading were 20 % faster, of a loader that can take 10 % at most, and nothing at least."""
    phases = {name: Phase((Window(10, 10 * s),)) for name, s in {"compute": 0.008, "input": 0.0005}.items()}
    held = [
        replace(each, record=replace(each.record, phases=each.record.phases | phases, metrics={"host": {"cores": 2}}))
        for each in launches({"": 0.010}, watched={"loads": 0.0})
    ]
    (of,) = group(held, by="variant")
    found = bottleneck(of.rows[0], of)
    assert found.kind == "undecided"
    assert find_loading(of.rows[0], found.loading) == 0.0
