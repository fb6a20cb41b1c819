from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from suite.analysis.rows.wording import figure
from suite.record.record import Record
from suite.record.text import clean
from tests import records
from tests.expected import golden
from tests.records import HOSTILE, mixed, only, tables
from tests.shown import in_markdown, terminal


def test_the_table_on_a_terminal() -> None:
    golden("compare_terminal.txt", terminal(only(mixed())))


def test_the_table_in_markdown() -> None:
    golden("compare_markdown.md", in_markdown(only(mixed())))


def test_synthetic_data_are_said_loudly() -> None:
    golden("compare_synthetic.txt", terminal(only(records.launches(kind="synthetic", n=1, workload="imdb_lstm"))))


def test_throughput_is_the_median_over_launches_with_their_spread() -> None:
    held = records.launches(["pytorch"], n=3)
    rates = sorted(r.samples_per_s or 0 for r in held)
    row = only(held).frame.iloc[0]
    assert [row["samples_per_s_min"], row["samples_per_s"], row["samples_per_s_max"]] == rates
    assert (row["launches"], row["launches_ok"], row["windows"]) == (3, 3, 24)


def test_a_ratio_is_formed_within_blocks() -> None:
    held = records.launches(["pytorch", "jax"], n=3)
    slow = [replace(r, phases={"train": replace(r.phases["train"], windows=r.phases["compute"].windows)}) for r in held]
    by_block = [(a.samples_per_s or 0) / (b.samples_per_s or 1) for b, a in zip(held[::2], held[1::2], strict=True)]
    assert only(held).frame["ratio"].tolist() == [1.0, sorted(by_block)[1]]
    drifting = [*held[:4], *slow[4:]]  # a block in which all are another speed leaves the others' ratios alone
    assert only(drifting).frame["ratio_blocks"].tolist() == [3, 3]


def reasons(held: Sequence[Record]) -> list[str]:
    return [text for each in tables(held) for text in each.frame["ratio_reason"]]


def test_no_ratio_without_a_counterpart() -> None:
    assert "no cell of pytorch" in reasons(records.launches(["jax"]))[0]
    for setting in ({"precision": "fp64"}, {"batch": 64}, {"size": "small"}, {"run": "run-b"}):
        held = [*records.launches(["pytorch"]), *records.launches(["jax"], **setting)]
        assert "no cell of pytorch" in reasons(held)[1], setting


@pytest.mark.parametrize("what", ["data", "workload"])
def test_rows_of_other_data_or_another_spec_get_a_table_of_their_own(what: str) -> None:
    other = [replace(r, **{what: {**getattr(r, what), "digest": "0" * 64}}) for r in records.launches(["jax"])]
    both = tables([*records.launches(["pytorch"]), *other])
    assert sorted(len(each.frame) for each in both) == [1, 1]
    assert sorted(str(each.frame["ratio_reason"].iloc[0])[:8] for each in both) == ["", "no ratio"]


def test_no_ratio_where_fingerprints_differ() -> None:
    held = records.launches(n=1)
    assert held[1].identity
    held[1] = replace(held[1], identity=replace(held[1].identity, weights="other"))
    found = only(held)
    assert [reason[:8] for reason in found.frame["ratio_reason"]] == ["", "no ratio", ""]
    assert "tensorflow differs: weights are not the others'" in terminal(found)


def test_no_ratio_between_machines() -> None:
    held = records.launches(["pytorch", "jax"])
    elsewhere = {"machine": {**records.MACHINE, "gpus": ["NVIDIA H100"]}}
    held = [replace(r, environment=elsewhere) if r.cell.framework == "jax" else r for r in held]
    assert "different machines" in reasons(held)[1]
    assert "NVIDIA H100" in terminal(only(held))


def test_no_ratio_to_a_failed_baseline_and_none_without_a_common_block() -> None:
    held = records.launches(["pytorch", "jax"], n=2)
    assert reasons([records.failed(held[0]), held[1], records.failed(held[2]), held[3]])[1].endswith("timeout")
    assert "no block" in reasons([held[0], records.failed(held[1]), records.failed(held[2]), held[3]])[1]


def test_one_kind_of_memory_is_shown_where_all_have_it_and_kinds_are_told_apart_where_not() -> None:
    held = records.launches(n=1)
    both = {"rss_peak_bytes": 2**30, "allocator_peak_bytes": 2**20}
    assert set(only([replace(held[0], memory=both), *held[1:]]).frame["peak_memory_kind"]) == {"rss_peak_bytes"}
    found = only([replace(held[0], memory={"allocator_peak_bytes": 2**20}), *held[1:]])
    assert found.frame["peak_memory_kind"].nunique() == 2
    assert " allocator" in terminal(found, None)
    assert "RSS" in terminal(found, None)
    assert "peak memory MiB (RSS)" in terminal(only(held), None)


def test_hostile_strings_neither_reach_the_terminal_nor_become_markup() -> None:
    held = [records.failed(r, "error", HOSTILE) for r in records.launches(["jax"])]
    ok = [
        replace(r, flags=(HOSTILE,), environment={"machine": {"cpu": HOSTILE, "cores": HOSTILE, "gpus": [HOSTILE]}})
        for r in records.launches(["pytorch"], run=HOSTILE)
    ]
    for found in tables([*ok, *held]):
        plain, marked = terminal(found), in_markdown(found)
        assert not set(plain) & set("\x1b\x07\r\u202e\ud800")
        assert max(map(len, plain.splitlines())) <= 120 + 40, "only a run's name makes it wider"
        assert "<" not in marked
        assert not re.search(r"(?<!\\)]\(", marked), "no link"
        assert "://" not in marked
        rows = [line for line in marked.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
        plain.encode()
        marked.encode()


def test_strange_shapes_of_what_the_schema_leaves_open() -> None:
    for machine in (None, [], "x", {}, {"gpus": "H100"}, {"cpu": None, "cores": {}, "gpus": [None, {}]}):
        held = [replace(r, environment={"machine": machine}, data={"kind": "../../x"}) for r in records.launches(n=1)]
        assert only(held).group.data_kind == "unknown"
        assert terminal(only(held))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.4, "1,234"), (999.7, "1,000"), (26.31, "26.3"), (0.02631, "0.0263"), (0, "0"), (1e-12, "1.00e-12"),
     (None, "\u2013"), (float("nan"), "\u2013"), (float("inf"), "\u2013"), (-2.5, "-2.50"), (10**9, "1,000,000,000")],
)  # fmt: skip
def test_numbers_keep_three_figures(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_row_that_is_slower_than_another_is_not_best_although_the_noisy_first_ties_with_both() -> None:
    noisy, near, behind = [0.6, 1.6, 0.6, 1.6, 0.6, 1.6], 1.1, 1.4
    held = [
        records.timed(seconds * (1 + 0.001 * block), name, block)
        for block in range(6)
        for name, seconds in (("pytorch", noisy[block] * 0.9), ("tensorflow", near), ("jax", behind))
    ]
    shown = only([*held, *(records.timed(9.0 + 0.01 * block, "jax", block, kernel="plain") for block in range(6))])
    best_rows = {
        f"{row.cell.framework} {row.cell.kernel}"
        for row in shown.group.rows
        if row.key in shown.leaders["samples_per_s"]
    }
    assert "tensorflow auto" in best_rows
    assert "jax auto" not in best_rows


def test_clean_text_is_one_line_of_limited_length() -> None:
    assert clean("a\n\tb\x00c\u200b d") == "a b c d"
    assert len(clean("x" * 10_000)) == 300
    assert clean(None) == "None"
