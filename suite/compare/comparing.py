"""Compares recorded runs; prints the answer, and writes tables, plots and a report."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from argparse import Namespace
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from suite.analysis.records.glance import cells_of
from suite.analysis.records.load import REPORT, Launch, Loaded, LoadError, find, find_saved, load
from suite.analysis.rows.axes import AXES, base, varied
from suite.analysis.rows.groups import Group, group
from suite.analysis.rows.metrics import Prices
from suite.analysis.rows.wording import listing
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.analysis.statistics.changes import Change, changes, check_machines
from suite.catalog.settings import SETTINGS
from suite.compare.show import report_left_alone, show
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.command.common import OLDER, OWN, PUBLISHED, SAVED
from suite.record.bundle import LARGEST, SUFFIX
from suite.record.saved import COMPRESSED, plain_name, run_name
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.terminal import Terminal
from suite.report.html.folder import INDEX, Compared, is_made_from, is_written, place_for, write
from suite.report.tables.frame import table
from workloads.data.files import read_regular
from workloads.data.progress import waiting


def compare(options: Namespace) -> int:
    """Compare what a command line asks for; returns the exit status."""
    submitted = _find_bundles(options.run) if options.publish else []
    # Bundles are of other machines, so each gets a report of its own.
    each = [[str(path)] for path in submitted] if len(submitted) > 1 else [options.run]
    return max(_compare(Namespace(**{**vars(options), "run": runs})) for runs in each)


def _compare(options: Namespace) -> int:
    try:
        paths, notes = find(options.run, options.storage)
        checked = [_check_bundle(path) for path in paths if options.publish and _is_bundle(path)]
        with waiting("reading the launches") as describe:
            loaded = load(paths)
            describe("comparing the launches")
            speed_changes = changes(loaded.launches, options.margin) if options.fail_if is not None else None
            groups = group_launches(loaded, options)
        notes += _say_where_it_varies(options.by, loaded.launches, options.storage)
        folder = _place(options, paths, {launch.run for launch in loaded.launches})
        # What stands in the default place may be published: asking again, perhaps otherwise, changes none of it.
        stands = not (options.output or options.publish) and is_written(folder)
        found, paths = paths, _publish_own(paths) if _is_of_suite(options.publish) else paths
    except (LoadError, OSError) as error:
        print(f"training-suite compare: {clean(error, 1000)}", file=sys.stderr)
        return 2
    with waiting("comparing the launches"):
        compared = make(loaded, groups, options, paths, checked[0] if len(paths) == len(checked) == 1 else "")
    if options.format != "html":  # which shows its plots; anything else is said before they are drawn
        show(compared, [*notes, *loaded.notes], options, folder, stands)
        sys.stdout.flush()
    try:
        with waiting("drawing the plots and writing the report"):
            late, page = _write(folder, compared, options, stands)
        late += _remove_moved(found, paths)  # now, since lines of timelines were read from there
    except (LoadError, OSError) as error:
        print(f"training-suite compare: {clean(error)}: choose another folder with --output", file=sys.stderr)
        return 2
    Terminal().out(page, end="")
    said = [f"note: {clean(note)}" for note in late]
    if options.verbose or options.format != "terminal":  # else the screen has said it
        said.append(report_left_alone(folder) if stands else f"written to {folder}: report.html, tables, launches")
    said += [f"published: {options.publish / INDEX}"] if options.publish else []
    for line in said:
        print(line, file=sys.stderr)
    return _regressions(*speed_changes, options.fail_if) if speed_changes else 0


def group_launches(loaded: Loaded, options: Namespace) -> list[Group]:
    """Returns the groups that are compared along the axis that is asked for, which the options then name.

    Raises `LoadError` where there is nothing to compare.
    """
    options.by, options.baseline = _axis(options, loaded.launches)
    groups = group(loaded.launches, options.by, options.across_machines or options.by == "run")
    _check_base(groups, options.by, options.baseline)
    return groups


def make(
    loaded: Loaded, groups: Sequence[Group], options: Namespace, paths: Sequence[Path], checked: str = ""
) -> Compared:
    """Returns the tables of these groups."""
    prices = Prices(options.price_hour, options.price_kwh, clean(options.currency, 20))
    framework = options.baseline if options.by == "framework" else FRAMEWORKS[0]
    timed = [each for each in groups if not trains_to_the_end(each)]
    return Compared(
        loaded,
        [table(each, options.baseline, prices, options.margin) for each in timed],
        [compare_accuracies(each, framework) for each in groups if trains_to_the_end(each)],
        list(map(plain_name, paths)),
        options.one_file,
        published=bool(options.publish),
        paths=paths,
        checked=checked,
    )


def _is_bundle(path: Path) -> bool:
    return path.suffix == SUFFIX


def _find_bundles(runs: Sequence[str]) -> list[Path]:
    """Returns the bundles that a command line names, in folders too, if it names nothing else."""
    paths = [path for run in map(Path, runs) for path in (sorted(run.glob(f"*{SUFFIX}")) if run.is_dir() else [run])]
    return paths if all(map(_is_bundle, paths)) else []


def _check_bundle(path: Path) -> str:
    """Returns what the rules say of a bundle. Raises `LoadError` if one refuses it, and `OSError`."""
    from suite.verify.rule import WARNING  # here, since the rules take long to load
    from suite.verify.rules import refusal, verify

    answers = verify(path)
    if words := refusal(answers):
        raise LoadError(f"{path}: is not published: {words}")
    warnings = sum(answer.kind == WARNING for answer in answers)
    return count(warnings, "warning") if warnings else "no warnings"


def _place_in_site(site: Path, name: str, runs: Iterable[str], paths: Sequence[Path]) -> Path:
    """Returns the folder for the report of these files, which was made from no other bundle. Raises `OSError`."""
    content = read_regular(paths[0], LARGEST) if len(paths) == 1 and _is_bundle(paths[0]) else None
    source = "" if content is None else hashlib.sha256(content).hexdigest()
    return place_for(site, name, runs, lambda folder: is_made_from(folder, content), source)


def _place_of_own(name: str, runs: Collection[str]) -> Path:
    """Returns the folder of a user's report, or that of the published one of these runs. Raises `OSError`."""
    published = place_for(PUBLISHED, name, runs)
    return published if is_written(published) else place_for(OWN, name, runs)


def _is_of_suite(site: Path | None) -> bool:
    return site is not None and site.resolve() == PUBLISHED.resolve()


def _publish_own(paths: Iterable[Path]) -> list[Path]:
    """Copies saved runs of the user to the published ones, compressed and in place of none; returns where all are.

    A link stays, as does what no run saved. Raises `OSError`.
    """
    from suite.session.storage import copy  # here, since pytest takes long to load

    there = []
    for path in paths:
        source = path.parent.resolve() / path.name  # the folder of the runs may be a link
        is_own = source.is_relative_to(SAVED.resolve()) and path.suffix == ".json" and not path.is_symlink()
        there.append(OLDER[SAVED] / f"{source.relative_to(SAVED.resolve())}{COMPRESSED}" if is_own else path)
        if is_own:
            copy(path, there[-1])
    return there


def _remove_moved(paths: Sequence[Path], there: Sequence[Path]) -> list[str]:
    """Removes what `_publish_own` copied, where it is still the same; returns notes that say what became of it."""
    return [_remove(path, place) for path, place in zip(paths, there, strict=True) if path != place]


def _remove(path: Path, place: Path) -> str:
    from suite.session.storage import drop  # here, since pytest takes long to load

    try:
        drop(path, place)
    except OSError as error:
        return f"{path.name} was copied to {place.parent}, and not removed: {error}"
    return f"{path.name} was moved to {place.parent}"


def _place(options: Namespace, paths: Sequence[Path], runs: Collection[str]) -> Path:
    """Returns the folder to write into, which is there; raises `LoadError` if it cannot be, before anything is said."""
    site, name = options.publish, run_name(paths[0]) + (f"-and-{len(paths) - 1}-more" if len(paths) > 1 else "")
    try:
        folder: Path = options.output or (
            _place_in_site(site, name, runs, paths) if site else _place_of_own(name, runs)
        )
        if site:
            from suite.report.html.site import check  # here, since pages take long to load

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
        notes = write(place, compared, options.extra, options.style)
        if options.publish:
            from suite.report.html.site import publish

            notes += publish(options.publish)
        return notes, (place / REPORT).read_text(encoding="utf-8") if printed else ""


def _regressions(tested: Sequence[Change], obstacles: Sequence[str], limit: float) -> int:
    """Print the cells that became significantly slower than ``limit``; returns 1 if any did, 3 if none was tested."""
    slower = [change for change in tested if change.slower(limit)]
    lines = [*(f"not tested: {clean(obstacle)}" for obstacle in obstacles), *(f"slower: {change}" for change in slower)]
    if tested:
        as_fast, every = sum(change.holds(limit) for change in tested), len(tested) + len(obstacles)
        lines.append(
            f"{len(slower)} of {every} cells are significantly slower, by more than {limit:.0%}; "
            f"not slower: {as_fast}, undecided: {len(tested) - len(slower) - as_fast}, not tested: {len(obstacles)}"
        )
    else:
        lines.append("--fail-if: no cell could be tested, so nothing is known about a slow-down")
    print(*lines, sep="\n", file=sys.stderr)
    return int(bool(slower)) if tested else 3


def _axis(options: Namespace, launches: Sequence[Launch]) -> tuple[str, str | None]:
    """Returns the axis and the baseline: those that were asked for, else the first of several runs that share a cell.

    Raises `LoadError` for runs of several machines.
    """
    runs: dict[Cell, set[str]] = {}
    for launch in launches:
        runs.setdefault(launch.record.cell, set()).add(launch.run)
    between = options.by == "run" or (not options.by and max(map(len, runs.values())) > 1)
    if not between:
        scripts = all(launch.record.cell.is_of_script for launch in launches)
        by = options.by or ("variant" if scripts else "framework")
        return by, options.baseline or (FRAMEWORKS[0] if by == "framework" else None)
    if not options.across_machines:
        check_machines(launches)
    return "run", options.baseline or launches[0].run


def _say_where_it_varies(by: str, launches: Sequence[Launch], storage: Path) -> list[str]:
    """Names the saved runs that vary the setting to compare along, if these launches do not, or else how to.

    Of frameworks: along what else these launches can be compared.
    """
    here = varied(launch.record.cell for launch in launches)
    if by == "framework":
        also = listing([f"{name} ({', '.join(values)})" for name, values in here.items() if name in AXES])
        return [f"Also varied: {also}; --by NAME compares the values of one"] if also else []
    if by not in SETTINGS or by in here or SETTINGS[by].is_of_script:
        return []
    found = {run_name(path): values for path in find_saved(storage) if (values := varied(cells_of(path)).get(by))}
    runs = listing([f"{name} ({', '.join(values)})" for name, values in found.items()])
    elsewhere = f"it varies in {runs}" if found else f"measure it: training-suite run --{by} {SETTINGS[by].example}"
    return [f"all launches have one {SETTINGS[by].title} in each workload and framework; {elsewhere}"]


def _check_base(groups: Sequence[Group], by: str, baseline: str | None) -> None:
    """Raises `LoadError` where all ratios would be 1, and where no row is the base that was asked for.

    A framework may be absent; the table says so.
    """
    rows = [row for each in groups for row in each.rows]
    wanted = baseline is not None and by != "framework"
    if wanted and not any(base(AXES[by], each.rows, baseline).holds(row) for each in groups for row in each.rows):
        values = dict.fromkeys(map(AXES[by].value, rows))
        raise LoadError(f"no cell has {by} {baseline!r} (--baseline); there are: {', '.join(values)}")
    if by not in AXES and not any(AXES[by].is_default(row) for row in rows):
        variants = dict.fromkeys(AXES["variant"].value(row) for row in rows)
        raise LoadError(f"no variant says {by}: --by takes a name of these: {', '.join(variants)}")
    if by == "run" and len(named := {row.run for row in rows}) == 1:
        raise LoadError(f"all launches are of one run, {min(named)}: --by run compares several, so name another")
    if by == "machine" and len(machines := {row.machine for row in rows}) == 1:
        raise LoadError(
            f"all launches are from one machine, {min(machines)}: --across-machines compares two. "
            "Name a run of another machine, or leave it out; with --by framework it lets runs share a ratio"
        )
