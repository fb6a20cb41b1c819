"""Tables of results in README and documentation are made from `results/`, so that no figure is made up or outdated.

``UPDATE_GOLDEN=1 pytest tests/docs`` writes them anew, between ``<!-- table: ... -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from suite.analysis.bottlenecks.causes import costs
from suite.analysis.records.load import load
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import DASH, figure
from suite.analysis.statistics.changes import find_speedups
from suite.record.parts.profile import CATEGORIES
from suite.report.tables.frame import table
from suite.report.text import started
from tests.documents import PAGES, ROOT
from tests.expected import GOLDEN
from tests.published import RUNS

TABLE = re.compile(r"(<!-- table: (\w+) ([\w. ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
#: Identity, with the largest relative deviation.
SAME = re.compile(r"^same \([\d.e-]+\)$")
RESULTS = ("docs/results-cpu.md", "docs/accuracy.md")
#: The runs of the table in the README.
ANSWER = ("0032_cpu",)
NAMES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
#: Of runs before and after the values were renamed.
TUNINGS = {"known": "recommended", "installed": "default", "recommended": "recommended", "default": "default"}
MODELS = {"cifar100_cnn": "CNN", "imdb_lstm": "LSTM", "imdb_transformer": "Transformer", "gpt_small": "GPT"}
#: A category of a profile has a line from this share of the reference's step on.
LEAST_SHARE = 0.05
Row = dict[str, str]


def rows(run: str, file: str) -> list[Row]:
    with (ROOT / "results" / run / file).open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def number(text: str, digits: int = 3) -> str:
    """Rounded to this many digits; whole from there on."""
    value = float(text)
    places = max(0, digits - len(str(int(abs(value)))) + (abs(value) < 1))
    return f"{value:,.{places}f}"


def spread(row: Row, name: str, digits: int = 3) -> str:
    least, most = row[f"{name}_min"], row[f"{name}_max"]
    ends = {number(end, digits) for end in (least, most)}
    value = number(row[name], digits)
    return value if ends == {value} else f"{value} ({number(least, digits)}{DASH}{number(most, digits)})"


def ratio(row: Row, name: str = "ratio", *ends: str) -> str:
    """With its 95 % interval, which it has from six blocks on."""
    value, low, high = (float(row[each]) for each in (name, *(f"{name}_{end}" for end in ends or ("min", "max"))))
    return f"{value:.2f}" if low == high else f"{value:.2f} ({low:.2f}{DASH}{high:.2f})"


def fastest(run: str) -> dict[tuple[str, str, str], str]:
    """The frameworks that none is decidedly faster than, by workload, batch and tuning, as the answer has them."""
    named = {}
    for each in map(table, group(load([RUNS[run]]).launches)):
        for contest in each.findings.contests:
            held = dict(contest.settings)
            key = MODELS[each.group.workload], held["batch"], TUNINGS[held["tuning"]]
            named[key] = " or ".join(NAMES[name] for name in NAMES if name in contest.leaders)
    return named


def answer(*runs: str) -> list[list[str]]:
    """A line per workload, batch and tuning: who is fastest, each throughput, its ratio to PyTorch, and the verdict."""
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    named = {key: names for run in runs for key, names in fastest(run).items()}
    for row in (row for run in runs for row in rows(run, "cells.csv")):
        text = number(row["samples_per_s"])
        if row["ratio_verdict"]:
            text += f"<br>{ratio(row)}<br>*{row['ratio_verdict']}*"
        lines.setdefault((MODELS[row["workload"]], row["batch"], TUNINGS[row["tuning"]]), {})[row["framework"]] = text
    head = ["workload", "batch", "settings", "fastest", *NAMES.values()]
    return [head, *([*what, named[what], *(found[name] for name in NAMES)] for what, found in lines.items())]


def settings(run: str, workload: str, axis: str) -> list[list[str]]:
    """The values of an axis side by side within each framework; ratios are to its usual value."""
    table = [["framework", axis, "n", "samples/s", "ratio", "peak memory MiB", "identity", "flags"]]
    for row in rows(run, "cells.csv"):
        if row["workload"] == workload and row["samples_per_s"]:
            line = [NAMES[row["framework"]], row[axis], row["launches_ok"], spread(row, "samples_per_s")]
            line += [_judged(ratio(row), row["ratio_verdict"]), f"{int(row['peak_memory_bytes']) / 2**20:,.0f}"]
            table.append([*line, row["identity"], row["flags"] or DASH])
    return table


def accuracy(run: str) -> list[list[str]]:
    read = rows(run, "accuracy.csv")
    formats = len({row["precision"] for row in read}) > 1
    target = f"{float(read[0]['target']):.2f}".lstrip("0")
    head = ["framework", "precision", "seeds", "epochs", "test accuracy (95 % interval)", "against PyTorch"]
    head += ["against fp32", f"epochs to {target}", f"seconds to {target}", "samples/s", "identity", "flags"]
    table = [head]
    for row in read:
        least, most = row["accuracy_low"], row["accuracy_high"]  # from two seeds on
        interval = f" ({float(least):.4f}{DASH}{float(most):.4f})" if least else ""
        line = [
            NAMES[row["framework"]], row["precision"], row["seeds_ok"], row["epochs"],
            f"{float(row['accuracy']):.4f}{interval}",
            _difference(row, "", "difference"), _difference(row, "fp32_", "fp32_difference"),
            spread(row, "epochs_to_target", 1), spread(row, "seconds_to_target"), spread(row, "samples_per_s"),
            row["identity"], row["flags"] or DASH,
        ]  # fmt: skip
        table.append(line)
    return table if formats else [[cell for place, cell in enumerate(line) if place not in (1, 6)] for line in table]


def _judged(value: str, verdict: str | None) -> str:
    return f"{value} {verdict}" if verdict else value


def inference(run: str) -> list[list[str]]:
    """A line per cell with usual settings that served; of those that decode, tokens/s too."""
    table = [["workload", "framework", "n", "samples/s", "ratio of samples/s", "request, median ms", "99th"]]
    table[0] += ["ratio of requests/s", "tokens/s (untested)", "of 8 prompts"]
    for row in rows(run, "inference.csv"):
        workload, framework, *chosen = row["cell"].removesuffix("-small").split("-")
        if chosen[-1] != "tuned":
            continue
        line = [MODELS[workload], NAMES[framework], row["launches"]]
        for name, *more in (("samples_per_s",), ("latency_ms_median", "latency_ms_p99")):
            line += [number(row[each]) if row[each] else DASH for each in (name, *more)]
            value = ratio(row, f"{name}_ratio", "low", "high") if row[f"{name}_ratio"] else DASH
            line.append(_judged(value, row[f"{name}_verdict"]))
        rates = (row[name] for name in ("tokens_per_s", "tokens_per_s_of_8"))
        table.append([*line, *(number(rate) if rate else DASH for rate in rates)])
    return table


def checkpoints(run: str) -> list[list[str]]:
    """By how much a save delays training, with the framework's usual way and asynchronously."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows(run, "checkpoints.csv"):
        place = MODELS[row["workload"]], NAMES[row["cell"].split("-")[1]]
        value, low, high = (number(row[f"delay_ms{end}"]) for end in ("", "_low", "_high"))
        lines.setdefault(place, []).append(f"{value} ({low} to {high})")
    head = ["workload", "framework", "delay, ms", "asynchronous, ms"]
    return [head, *([*place, *texts] for place, texts in lines.items())]


def speedups(run: str, axis: str) -> list[list[str]]:
    """What another value of an axis changes, by workload and batch: a column for each framework."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for each in map(table, group(load([RUNS[run]]).launches)):
        for gain in find_speedups(each.group, each.identities):
            if gain.axis == axis:
                place = MODELS[each.group.workload], str(gain.row.cell.batch)
                ratio = f"{gain.ratio.value:.2f} ({gain.ratio.low:.2f}{DASH}{gain.ratio.high:.2f})"
                lines.setdefault(place, {})[gain.framework] = _judged(ratio, gain.ratio.verdict)
    return [["workload", "batch", *NAMES.values()], *([*at, *(by[each] for each in NAMES)] for at, by in lines.items())]


def profile(run: str, workload: str, batch: str, *releases: str) -> list[list[str]]:
    """Milliseconds of a step by category, of each framework; of releases, those that are named."""
    held = [row for each in group(load([RUNS[run]]).launches) if each.workload == workload for row in each.rows]
    named = [row for row in held if row.cell.batch == int(batch) and row.cell.size == "full"]
    by = {
        row.cell.framework: found for row in named if row.cell.release in (releases or [""]) and (found := costs(row))
    }
    columns = [by[name] for name in NAMES]
    lines = [[name, *(each.seconds[name] for each in columns)] for name in CATEGORIES]
    lines = [line for line in lines if max(line[1:]) > LEAST_SHARE * columns[0].step_s]
    rest = [each.step_s - sum(each.seconds[name] for name, *_ in lines) for each in columns]
    lines += [["everything else", *rest], ["timed step", *(each.step_s for each in columns)]]
    return [["ms", *NAMES.values()], *([name, *(number(str(1000 * each)) for each in times)] for name, *times in lines)]


def along(*arguments: str) -> list[list[str]]:
    """Of runs, a line per cell with another value of an axis than usual: how many times as fast it is."""
    *runs, axis = arguments
    lines = [["workload", "size", "framework", axis, "n", "training", "passes", "requests"]]  # of which not all served
    for made in (table(each) for run in runs for each in group(load([RUNS[run]]).launches, axis)):
        for cell, row in zip(made.cells, made.group.rows, strict=True):
            if not cell.ratio.value or cell.ratio.baseline == cell.cell:
                continue
            line = [MODELS[row.cell.workload], row.cell.size, NAMES[row.cell.framework], cell.settings[axis]]
            line.append(str(cell.launches_ok))
            served = made.findings.servings.get(row.key)
            ratios = (cell.ratio, *(served.ratios.values() if served else ()))
            lines.append(
                [*line, *(_judged(f"{x.value:.2f} ({x.low:.2f}{DASH}{x.high:.2f})", x.verdict) for x in ratios)]
            )
    return lines


def lengths(run: str, workload: str) -> list[list[str]]:
    """How many times as fast batches of other lengths train, and what they take."""
    counted = {row["cell"]: row for row in rows(run, "cells.csv")}
    lines = [["workload", "framework", "lengths", "training", "padding %", "programs", "of them in windows"]]
    for made in (table(each) for each in group(load([RUNS[run]]).launches, "lengths")):
        for cell, row in zip(made.cells, made.group.rows, strict=True):
            if row.cell.workload == workload and cell.ratio.value and cell.ratio.baseline != cell.cell:
                found, ratio = counted[cell.cell], cell.ratio
                place = [MODELS[row.cell.workload], NAMES[row.cell.framework], cell.settings["lengths"]]
                text = f"{ratio.value:.2f} ({ratio.low:.2f}{DASH}{ratio.high:.2f})"
                counts = (100 * float(found["padding_share"]), found["programs"], found["compiled_in_windows"])
                lines.append([*place, _judged(text, ratio.verdict), *(f"{float(each):.0f}" for each in counts)])
    return lines


def starts(run: str) -> list[list[str]]:
    """Seconds until the first step has ended, with a cold and with a warm compile cache."""
    lines = [["workload", "framework", "compile", "cold, s", "warm, s", "times as soon"]]
    for made in (table(each) for each in group(load([RUNS[run]]).launches)):
        for pair, found in started.starts(made):
            place = [MODELS[pair.row.cell.workload], NAMES[pair.row.cell.framework], pair.row.cell.compile]
            seconds = [[record.first_step_s or 0.0 for record in each.ok] for each in (pair.other, pair.row)]
            ends = [[figure(end(each), 2) for end in (median, min, max)] for each in seconds]
            text = f"{found.value:.2f} ({found.low:.2f}{DASH}{found.high:.2f})"
            both = [f"{middle} ({low}{DASH}{high})" for middle, low, high in ends]
            lines.append([*place, *both, _judged(text, found.verdict)])
    return lines


def _difference(row: Row, prefix: str, name: str) -> str:
    verdict = row[f"{prefix}verdict"]
    return f"{verdict} ({100 * float(row[f'{name}_value']):+.2f})" if verdict else DASH


def gpu(journal: str) -> list[list[str]]:
    """What was measured of the cells of a journal that is not published, and what the monitor saw of the GPU."""
    names = {
        "samples/s": "samples_per_s", "step ms": "step_ms_median", "GPU busy %": "gpu_utilisation_percent",
        "SM active %": "sm_utilisation_percent", "power W": "power_w", "first step s": "first_step_s",
    }  # fmt: skip
    lines = [["workload", "framework", "precision", "compile", *names, "MFU %", "peak MiB", "identity"]]
    found = group(load([GOLDEN / "runs" / f"{journal}.jsonl"]).launches)
    for row in (row for each in found for row in table(each).rows if row["launches_ok"]):
        line = [MODELS[row["workload"]], NAMES[row["framework"]], row["precision"], row["compile"]]
        line += [number(str(row[name])) for name in names.values()]
        line += [number(str(100 * row["model_flops_utilisation"])), f"{row['peak_memory_bytes'] / 2**20:,.0f}"]
        lines.append([*line, row["identity"]])
    return lines


OTHERS = (accuracy, inference, along, gpu, checkpoints, lengths, starts)
MAKERS: dict[str, Callable[..., list[list[str]]]] = {
    each.__name__: each for each in (answer, settings, speedups, profile, *OTHERS)
}


def markdown(table: list[list[str]]) -> str:
    """Without columns that are the same in all lines, which the text above a table says."""
    columns = [{SAME.sub("same", cell) for cell in column} for column in zip(*table[1:], strict=True)]
    varying = [place for place, column in enumerate(columns) if len(column) > 1]
    table = [[line[place] for place in varying] for line in table]
    head, *lines = (f"| {' | '.join(line)} |\n" for line in table)
    return "".join([head, f"|{':--|' * len(table[0])}\n", *lines])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_those_of_the_published_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: f"{found[1]}\n{markdown(MAKERS[found[2]](*found[3].split()))}\n{found[4]}", text)
    if os.environ.get("UPDATE_GOLDEN") and made != text:
        page.write_text(made, encoding="utf-8")
        text = made
    assert made == text, "out of date: UPDATE_GOLDEN=1 pytest tests/docs rewrites the tables"


def test_the_readme_and_the_results_have_their_tables() -> None:
    found = {name: TABLE.findall((ROOT / name).read_text()) for name in ("README.md", *RESULTS)}
    assert [(kind, run) for _, kind, run, _ in found["README.md"]] == [("answer", " ".join(ANSWER))]
    kinds = [kind for _, kind, _, _ in found["docs/results-cpu.md"]]
    assert {*kinds} == {"profile", "settings", "speedups", "inference", "along", "lengths", "checkpoints", "starts"}
    assert len(found["docs/accuracy.md"]) == 2
