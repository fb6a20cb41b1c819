"""Publish every saved run anew: ``python -m tests.studies.redraw NEW``; with ``--in-place``, then replace the old ones.

After a change to plots, tables or the form of records, this writes the saved runs in today's form and their
comparisons into the folder NEW, and sets every figure of their CSV files beside the one published before. New columns
are named, and so are sums that were rounded otherwise (by less than 1e-12 of the figure). Where another figure differs
or is gone, it is named too, nothing is replaced, and the exit status is 1. Only what is shown stays: of the readings
over time those of each cell's median launch, and of the plots, which the reports hold anyway, those that a page of
documentation has.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.analysis.rows.metrics import pick_launch
from suite.compare.__main__ import main as compare
from suite.monitor.timeline import short
from suite.plan.cell import Cell
from suite.record.record import Record
from suite.record.saved import COMPRESSED, compress, encode_lines, open_run, thin_lines, unpack
from suite.report.html.site import publish
from suite.session.storage import compact
from tests.weights import published, weight

#: Columns that hold no figure but what a rule makes of the figures.
JUDGED = {
    "ratio_min", "ratio_max", "ratio_p", "ratio_verdict", "ratio_blocks_to_decide", "control_min", "control_max",
    "efficiency_min", "efficiency_max", "efficiency_verdict", "bottleneck", "bottleneck_detail", "loading_share",
    "advice", "symptoms", "tuning",
    "identity", "identity_kind",
}  # fmt: skip
#: The runs that were published with another `--by` than the framework.
BY = {
    "0017_interfaces": "interface",
    "0023_compiled": "compile",
    "0027_releases": "release",
}

ROOT = Path(__file__).parents[2]
TABLES = ("cells.csv", "accuracy.csv", "epochs.csv", "launches.csv")


def renewed(saved: dict[str, Any]) -> dict[str, Any]:
    """A saved run in today's form: the same records, and of their lines over time what plots can show."""
    run = unpack(saved)
    if any("before" in entry["extra_info"]["record"]["run"] for entry in run["benchmarks"]):
        return saved  # each line has a digest of the one before, which would no longer hold
    infos = [entry["extra_info"] for entry in run["benchmarks"]]
    shown = _shown(Record.from_json(info["record"]) for info in infos)
    for info in infos:
        info["record"] = _record(info["record"], shown)
    run["suite"]["failed"] = [_record(each, shown) for each in run["suite"]["failed"]]
    return run


def _shown(records: Iterable[Record]) -> set[str]:
    """The keys of the launches whose lines over time a plot shows."""
    cells: dict[Cell, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.launch):
        cells.setdefault(record.cell, []).extend([record] * (record.outcome.ok and not record.control))
    return {shown.key for launches in cells.values() if (shown := pick_launch(launches))}


def _record(data: dict[str, Any], shown: Container[str]) -> dict[str, Any]:
    before = Record.from_json(data)
    record = replace(before, metrics=_metrics(before.metrics, before.key in shown)).to_json()
    after = Record.from_json(json.loads(json.dumps(record)))
    assert replace(after, metrics=before.metrics) == before, f"{before.key} changed"
    return record


def _metrics(metrics: dict[str, Any], shown: bool) -> dict[str, Any]:
    thin_lines(metrics := copy.deepcopy(metrics))
    changes: dict[str, Any] = {}
    if "host" in metrics:
        changes["host"] = _source(metrics["host"], shown)
    if "gpus" in metrics:
        changes["gpus"] = [_source(each, shown) for each in metrics["gpus"]]
    return metrics | changes


def _source(source: dict[str, Any], shown: bool) -> dict[str, Any]:
    """What was seen of the host or a GPU. Medians stay exact, since tables show them."""
    changes: dict[str, Any] = {}
    if not shown:
        source = {name: value for name, value in source.items() if name != "timeline"}
    if line := source.get("timeline"):
        changes["timeline"] = encode_lines(line["at_s"], line["values"])
    if phases := source.get("phases"):
        changes["phases"] = {
            phase: {
                name: {figure: _figure(figure, value) for figure, value in figures.items()}
                for name, figures in seen.items()
            }
            for phase, seen in phases.items()
        }
    if totals := source.get("totals"):
        changes["totals"] = {
            phase: {name: None if grown is None else short(grown) for name, grown in seen.items()}
            for phase, seen in totals.items()
        }
    return source | changes


def _figure(name: str, value: float) -> float:
    return value if name in ("median", "n") else short(value)


def differences(old: Path, new: Path, judged_anew: bool = False) -> Iterator[tuple[bool, str]]:
    """What a published folder says otherwise than before: whether that is wrong, and what it is.

    With ``judged_anew`` what is concluded from the figures (`JUDGED`) may differ.
    """
    for name in TABLES:
        before, after = (_table(folder / name) for folder in (old, new))
        for column in sorted(after.keys() - before.keys()):
            yield False, f"{new.name}/{name}: {column} is new"
        for column in before:
            where = f"{new.name}/{name}: {column}"
            if column not in after:
                yield True, f"{where} is gone"
            elif len(before[column]) != len(after[column]):
                yield True, f"{where} had {len(before[column])} rows and has {len(after[column])}"
            elif pairs := [pair for pair in zip(before[column], after[column], strict=True) if len({*pair}) > 1]:
                wrong = [pair for pair in pairs if not _rounded(*pair)]
                words = f"differs in {len(wrong)} rows" if wrong else f"is rounded otherwise in {len(pairs)} rows"
                yield bool(wrong) and not (judged_anew and column in JUDGED), f"{where} {words}"


def _rounded(one: str, other: str) -> bool:
    """Whether these are figures that only the order of a sum can have set apart."""
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-12)
    except ValueError:
        return False


def _table(path: Path) -> dict[str, list[str]]:
    """A CSV file by column; nothing where there is none."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return {column: [row[place] for row in rows] for place, column in enumerate(head)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish, compare, print what each run weighs; 1 where a figure differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("new", type=Path, metavar="NEW", help="a folder to publish into, which must not be there yet")
    parser.add_argument("--results", type=Path, default=Path("results"), help="what is published (default: results)")
    parser.add_argument(
        "--judged-anew",
        action="store_true",
        help="verdicts may differ, since their rules changed; no measurement may",
    )
    parser.add_argument("--in-place", action="store_true", help="then replace what is in results/")
    options = parser.parse_args(arguments)
    options.new.mkdir(parents=True)
    wrong = False
    shown = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")))
    before = published(options.results)
    for name, (run, *_) in before.items():
        path = options.new / run.relative_to(options.results).with_name(f"{name}.json{COMPRESSED}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_run(run) as file:
            path.write_bytes(compress(compact(renewed(json.load(file))).encode()))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            status = compare(
                [str(path), "--publish", str(options.new), "--by", BY.get(name, "framework"), "--extra", "png"]
            )
        for picture in (options.new / name).glob("*.png"):
            if f"{name}/{picture.name}" not in shown:
                picture.unlink()
        ends = [(True, f"{name} could not be compared")] if status else []
        for bad, words in [*ends, *differences(options.results / name, options.new / name, options.judged_anew)]:
            print(f"{'WRONG: ' if bad else ''}{words}")
            wrong |= bad
    for name, paths in published(options.new).items():
        print(f"{name:28}{weight(before[name])!s:>32}  ->  {weight(paths)}", flush=True)
    print(f"{'all':28}{weight([options.results])!s:>32}  ->  {weight([options.new])}")
    if options.in_place and not wrong:
        _replace(options.results, options.new)
    return int(wrong)


def _replace(results: Path, new: Path) -> None:
    """Put what was published in the place of what was; all else in the folder stays.

    Nothing is removed before its replacement lies beside it.
    """
    former = published(results)
    for name, (run, *folders) in published(new).items():
        target = results / run.relative_to(new)
        shutil.copyfile(run, beside := target.with_name(f".new-{target.name}"))
        beside.replace(target)
        if (old := former[name][0]) != target:
            old.unlink()
        for folder in folders:
            place, before = results / name, results / f".before-{name}"
            shutil.copytree(folder, beside := results / f".new-{name}")
            if place.exists():
                place.rename(before)
            beside.rename(place)
            if before.exists():
                shutil.rmtree(before)
    publish(results)  # the index lists folders that came from other machines too


if __name__ == "__main__":
    sys.exit(main())
