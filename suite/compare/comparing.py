"""Compares recorded runs; prints the answer, and writes tables, plots and a report."""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.analysis.accuracy.comparison import compare_accuracies, trains_to_the_end
from suite.analysis.records.load import REPORT, LoadError, find, load
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.groups import Group, group
from suite.analysis.rows.metrics import Prices
from suite.analysis.statistics.regress import Change, changes
from suite.compare import bundles
from suite.compare.show import report_left_alone, show
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.report.html.folder import INDEX, Compared, is_written, place_for, write
from suite.report.html.site import check, publish
from suite.report.tables.frame import table
from workloads.data.progress import waiting

RESULTS = Path("results")


def compare(options: Namespace) -> int:
    """Compare what a command line asks for; returns the exit status."""
    submitted = bundles.find_bundles(options.run) if options.publish else []
    if len(submitted) > 1:  # of other machines, so each gets a report of its own
        return max(_compare(Namespace(**{**vars(options), "run": [str(path)]})) for path in submitted)
    return _compare(options)


def _compare(options: Namespace) -> int:
    """Compare the runs of a command line; returns the exit status."""
    try:
        paths, notes = find(options.run, options.storage)
        submitted = " ".join(bundles.check(path) for path in paths if options.publish and bundles.is_bundle(path))
        with waiting("reading the launches") as describe:
            loaded = load(paths)
            describe("comparing the launches")
            speed_changes = changes(loaded.launches) if options.fail_if is not None else None
            groups = group(loaded.launches, options.by, options.across_machines)
        _check_baseline(groups, options.by, options.baseline)
        _check_machines(groups, options.by)
        runs = {launch.run for launch in loaded.launches}
        folder = _place(options, paths, runs)
        # What stands in the default place may be published: asking again, perhaps otherwise, changes none of it.
        stands = not (options.output or options.publish) and is_written(folder)
    except (LoadError, OSError) as error:
        print(f"suite.compare: {clean(error, 1000)}", file=sys.stderr)
        return 2
    prices = Prices(options.price_hour, options.price_kwh)
    framework = options.baseline if options.by == "framework" else FRAMEWORKS[0]
    with waiting("comparing the launches"):
        tables = [
            table(each, options.baseline, prices, options.margin) for each in groups if not trains_to_the_end(each)
        ]
        courses = [compare_accuracies(each, framework) for each in groups if trains_to_the_end(each)]
    names = [path.name for path in paths]
    notes += loaded.notes
    published, checked = bool(options.publish), submitted if len(paths) == 1 else ""
    compared = Compared(loaded, tables, courses, names, options.one_file, published, paths, checked)
    if options.format != "html":  # which shows its plots; anything else is said before they are drawn
        show(compared, notes, options, folder, stands)
        sys.stdout.flush()
    try:
        with waiting("drawing the plots and writing the report"):
            late, page = _write(folder, compared, options, stands)
    except (LoadError, OSError) as error:
        print(f"suite.compare: {clean(error)}: choose another folder with --output", file=sys.stderr)
        return 2
    Terminal().out(page, end="")
    for note in late:
        print(f"note: {clean(note)}", file=sys.stderr)
    if options.verbose or options.format != "terminal":  # else the screen has said it
        written = f"written to {folder}: report.html, tables, launches, plots"
        print(report_left_alone(folder) if stands else written, file=sys.stderr)
    if options.publish:
        print(f"published: {options.publish / INDEX}", file=sys.stderr)
    return _regressions(*speed_changes, options.fail_if) if speed_changes else 0


def _place(options: Namespace, paths: Sequence[Path], runs: Iterable[str]) -> Path:
    """Returns the folder to write into, which is there; raises `LoadError` if it cannot be, before anything is said."""
    try:
        site, name = options.publish, _name(paths)
        folder: Path = options.output or (
            bundles.place(site, name, runs, paths) if site else place_for(RESULTS, name, runs)
        )
        if site:
            check(site, folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoadError(f"{error}: choose another folder with --output") from None
    return folder


def _write(folder: Path, compared: Compared, options: Namespace, stands: bool) -> tuple[list[str], str]:
    """Write the comparison, unless one ``stands`` there; returns notes on it, and the page if that is to be printed."""
    printed = options.format == "html"
    if stands and not printed:
        return [], ""
    with tempfile.TemporaryDirectory() as elsewhere:
        place = Path(elsewhere) if stands else folder
        notes = write(place, compared, options.extra)
        notes += publish(options.publish) if options.publish else []
        return notes, (place / REPORT).read_text(encoding="utf-8") if printed else ""


def _regressions(tested: Sequence[Change], obstacles: Sequence[str], limit: float) -> int:
    """Print the cells that became significantly slower than ``limit``; returns 1 if any did, 3 if none was tested."""
    for obstacle in obstacles:
        print(f"not tested: {clean(obstacle)}", file=sys.stderr)
    if not tested:
        print("--fail-if: no cell could be tested, so nothing is known about a slow-down", file=sys.stderr)
        return 3
    slower = [change for change in tested if change.slower(limit)]
    for change in slower:
        print(f"slower: {change}", file=sys.stderr)
    print(f"{len(slower)} of {len(tested)} cells are significantly slower, by more than {limit:.0%}", file=sys.stderr)
    return int(bool(slower))


def _check_machines(groups: Sequence[Group], by: str) -> None:
    """Raise `LoadError` where ratios between machines are asked for and there is one machine: all would be 1."""
    machines = {row.machine for each in groups for row in each.rows}
    if by == "machine" and len(machines) == 1:
        raise LoadError(
            f"all launches are from one machine, {min(machines)}: --across-machines compares two. "
            "Name a run of another machine, or leave it out; with --by framework it lets runs share a ratio"
        )


def _check_baseline(groups: Sequence[Group], by: str, baseline: str | None) -> None:
    """Raises `LoadError` if no row has that value. A framework may be absent; the table says so."""
    if baseline is None or by == "framework":
        return
    axis = AXES[by]
    if not any(base(axis, each.rows, baseline).holds(row) for each in groups for row in each.rows):
        values = dict.fromkeys(axis.value(row) for each in groups for row in each.rows)
        raise LoadError(f"no cell has {by} {baseline!r} (--baseline); there are: {', '.join(values)}")


def _name(paths: Sequence[Path]) -> str:
    suffix = f"-and-{len(paths) - 1}-more" if len(paths) > 1 else ""
    return paths[0].stem + suffix
