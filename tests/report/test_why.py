"""Causes in words: on the terminal, in Markdown, on the page and as JSON; only where a profile is, and always safe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_page import page

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.compare.__main__ import main
from suite.plan.command.common import OWN
from suite.plan.sweeps.sweep import parse_axes, swept, usual
from suite.record.record import Record
from suite.report.format.terminal import Terminal
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table, table
from suite.report.text.why import PairExplanation, explain_pairs, explain_sides, no_profile
from tests import records
from tests.expected import golden
from tests.profiles import CNN, all_profiled, profiled
from tests.records import HOSTILE, only

pytestmark = pytest.mark.usefixtures("undrawn")


def every(shown: Table) -> list[PairExplanation]:
    """As the terminal prints them: of each pair the setting where it differs most, then its others."""
    return [told for most, others in explain_sides(shown) for told in (most, *others)]


def told(held: Sequence[Record]) -> str:
    return "\n".join(line for each in every(only(held)) for line in (each.title, *each.lines))


def test_the_words_are_these(capsys: pytest.CaptureFixture[str]) -> None:
    """Six launches in two precisions: what is told of every pair, and the tables of categories and of the roofline."""
    shown = only(all_profiled([*records.launches(n=6), *records.launches(["jax"], n=6, precision="bf16")]))
    terminal = Terminal(width=120)
    for each in every(shown):
        terminal.say(each.title)
        for line in each.lines:
            terminal.say(f" - {line}")
    for view in breakdowns(shown):
        terminal.show(view)
    golden("why.txt", capsys.readouterr().out)


def test_few_launches_are_told_and_marked() -> None:
    words = told(all_profiled(records.launches(["pytorch", "jax"], n=2)))
    assert "(not tested, 2 blocks)" in words
    assert "Not tested: 2 blocks with both profiles, a test needs at least 6." in words
    assert "interval" not in words


def test_flagged_launches_and_unknown_operations_are_told() -> None:
    held = all_profiled(records.launches(["pytorch", "jax"], n=6))
    assert "Flagged" not in told(held)
    assert "No rule knows" not in told(held)
    flagged = [replace(each, flags=("contaminated",)) if each.cell.framework == "jax" else each for each in held]
    assert "Flagged launches among the 6 profiled ones of JAX: contaminated 6." in told(flagged)
    shares = {name: 0.9 * share for name, share in CNN["pytorch"].items()} | {"other": 0.1}
    unknown = [profiled(each, shares) if each.cell.framework == "pytorch" else each for each in held]
    assert "No rule knows 0 % and 10 % of the two steps (other)" in told(unknown)


def test_a_significant_ratio_is_explained_and_an_equal_one_only_when_asked() -> None:
    held = all_profiled([*records.launches(["jax"], n=6), *records.launches(["jax"], n=6, precision="bf16")])
    (one,) = group([Launch(each, "run-a", "a.json") for each in held], "precision")
    shown = table(one)
    assert shown.frame["ratio_verdict"].tolist()[-1] in ("equal", "inconclusive")
    assert explain_sides(shown) == []
    ((_, told_pair),) = explain_pairs(shown)
    assert "no difference to explain" in told_pair.lines[-1]


def test_a_sum_that_disagrees_with_the_timed_step_says_so_and_why() -> None:
    made = profiled(records.record("jax"))
    assert made.profile
    noted = replace(made.profile, timed_s=1.5 * made.profile.timed_s, note="the profiler slowed the loader")
    notes = breakdowns(only([replace(made, profile=noted)]))[0].notes
    assert any(
        "As profiled, the sum is 67 % of the timed step. the profiler slowed the loader" in note for note in notes
    )


NAME = HOSTILE.encode("utf-8", "replace").decode()[:120]


def hostile(note: str) -> list[Record]:
    held = []
    for launched in records.launches(["pytorch", "jax"], n=2):
        step_s = 0.5 if launched.cell.framework == "jax" else 0.2
        each = profiled(replace(launched, phases=records.timed(step_s).phases))
        assert each.profile
        bad = [replace(op, name=NAME, holds=(NAME,)) for op in each.profile.operations]
        held.append(replace(each, profile=replace(each.profile, operations=tuple(bad), note=note)))
    return held


@pytest.mark.parametrize("note", ["", NAME], ids=["names", "names and a note"])
def test_hostile_names_stay_text_on_the_page_and_harmless_on_the_terminal(
    note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has names only of what explains a ratio, which launches with a note that is not the suite's do not have."""
    text = page(hostile(note))[0]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    monkeypatch.chdir(tmp_path)
    path = records.save(tmp_path / "0001_a.json", hostile(note))
    for form in ("terminal", "markdown", "json"):
        assert main([str(path), "--why", "--format", form, "--output", "there"]) == 0
        said = capsys.readouterr().out
        assert ("alert(1)" in said) == (form != "json" or not note)
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert form != "markdown" or "**bold**" not in said


def test_compare_tells_why_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(records.save(tmp_path / "0001_a.json", all_profiled(records.launches(n=6))))
    cause = "Convolution weight gradient: 32.6 ms against 8.41 ms"
    for options in (["--why"], ["--verbose"], ["--format", "markdown"]):
        assert main([path, *options]) == 0
        assert cause in " ".join(capsys.readouterr().out.split()), options
    assert cause in (OWN / "0001_a" / "table.md").read_text()
    assert cause in (OWN / "0001_a" / "report.html").read_text()
    assert main([path]) == 0
    assert cause not in capsys.readouterr().out, "the screen holds the answer alone"
    assert main([path, "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["tables"]
    explained = next(each for each in one["why"] if "-jax-" in each["cell"] and "-pytorch-" in each["other"])
    assert explained["causes"][0]["category"] == "convolution weight gradient"
    assert explained["causes"][0]["share"] == pytest.approx(0.74, abs=0.02)
    seconds = explained["causes"][0]["seconds"] - explained["causes"][0]["other_seconds"]
    assert explained["causes"][0]["difference"]["low"] < seconds
    assert explained["causes"][0]["known"]
    assert explained["blocks"] == 6


def options(held: list[Record]) -> dict[str, str]:
    words = no_profile([only(held)]).partition(" run --profile ")[2].split()
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_way_to_a_profile_names_what_was_measured() -> None:
    """Typed as it is, it measures these cells again, and no others."""
    texts = records.launches(["jax", "pytorch"], n=1, workload="imdb_lstm", size="small", batch=64)
    named = {"--workload": "imdb_lstm", "--framework": "pytorch,jax", "--batch": "64", "--size": "small"}
    assert options(texts) == named
    typed = {name.removeprefix("--"): value for name, value in options(texts).items()}
    assert set(swept(usual(gpu=False), parse_axes(typed)).cells) == {each.cell for each in texts}
    own = [replace(each, cell=each.cell.but(workload="own_flowers")) for each in texts]
    assert options(own) == named | {"--workload": "own_flowers", "--workloads": "flowers"}


def test_a_row_without_a_profile_is_named() -> None:
    held = records.launches(["pytorch", "jax"], n=2)
    held = [profiled(each) if each.cell.framework == "jax" else each for each in held]
    assert "No profile of pytorch, eager. Measure with --profile to record one: training-suite run --profile" in told(
        held
    )
