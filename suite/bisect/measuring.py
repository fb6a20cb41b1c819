"""Measures what a bisection asks for, and prints and saves what it finds."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from framework_training_suite import typed
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import listing
from suite.bisect.search import ENDS, MIDDLE, Bisection, Decision, Rates
from suite.catalog.versions import version_key
from suite.plan.cell import Cell
from suite.plan.command.common import check_numbers
from suite.plan.matrix import MatrixError, smoke, with_windows
from suite.plan.measuring import LAST_LOOK
from suite.profile.chosen import parse_cell
from suite.record.record import Record
from suite.releases.index import releases, resolve
from suite.report.format.names import count, framework
from suite.report.format.terminal import Terminal
from suite.report.tables.frame import table
from suite.report.text.why import explain_sides
from suite.session.launches.settings import Settings
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import CommandTerminal
from workloads.registry import register


def bisect(options: argparse.Namespace) -> int:
    """Launch until the search ends; what was measured is saved in any case. Returns the exit status."""
    terminal = CommandTerminal()
    cells = _read_cells(options)
    versions = [cell.release for cell in cells]
    plan = smoke().plan
    plan = plan if options.min_window is None else with_windows(plan, options.min_window, "--min-window")
    cell = cells[0].but(release="")
    asked = {"releases": versions, "risk": options.risk, "cell": cell.id}
    settings = Settings.of(options, f"bisect-{cell.id}", LAST_LOOK, plan, search=asked, profile=options.why)
    run = Run(settings, [(cells[0], 0), (cells[-1], 0)], terminal.say, terminal.show)

    def measure(places: Sequence[int], block: int) -> Rates:
        """Launches a block, in a random order that a resumed search repeats."""
        order = list(places)
        random.Random(f"{options.seed} {block}").shuffle(order)  # noqa: S311 - no secret
        records = {place: run.next(cells[place], block) for place in order}
        return {place: record.samples_per_s if record.outcome.ok else None for place, record in records.items()}

    search = Bisection(versions, measure, options.risk, told=lambda made: terminal.say(_describe(made, versions)))
    try:
        run.prepare()
        terminal.say(
            f"{count(len(versions), 'release')} from {versions[0]} to {versions[-1]}; each decision has a risk of "
            f"{search.level:.1%}"
        )
        last = search.go()
    finally:
        terminal.show("")
        run.close()
        if run.records:
            path = save_run(run, options.storage, f"bisect-{cell.id}")
            compare = typed(f"training-suite compare {path} --by release")
            sys.stderr.write(f"Launches: {path}\nCompare them with: {compare}\n")
    return _answer(search, last, cells, run.records)


def _read_cells(options: argparse.Namespace) -> list[Cell]:
    check_numbers(options)
    for place in options.workloads:
        register(place)
    cell = parse_cell(options.cell)
    cell = cell.but(size=options.size or cell.size, release="")
    name = cell.framework
    good, bad = (each.partition("=")[2] for each in resolve([f"{name}={options.good}", f"{name}={options.bad}"]))
    between = (options.releases or "").split(",")
    if not options.releases:
        between = [each.version for each in releases(name) if each.minors]
    if not all((good, bad, *between)):
        raise MatrixError("a release is empty; write versions, such as 0.9.2,0.10.2")
    cells = {version: cell.but(release=version) for version in (good, bad, *between)}
    if version_key(good) >= version_key(bad):
        raise MatrixError(f"--good {good} is not older than --bad {bad}")
    inside = [each for each in cells if version_key(good) < version_key(each) < version_key(bad)]
    return [cells[each] for each in (good, *sorted(inside, key=version_key), bad)]


def _describe(made: Decision, versions: Sequence[str]) -> str:
    test, release = made.test, versions[made.place]
    to = "the one before" if made.kind not in (ENDS, MIDDLE) else versions[0]
    words = "undecided" if made.slow is None else "slow" if made.slow else "fast"
    ratio = f"{test.value:.2f}x of {to} ({test.low:.2f} to {test.high:.2f})"
    return f"{release}: {words} after {count(made.blocks, 'block')}, {ratio}"


def _answer(search: Bisection, last: Decision | None, cells: Sequence[Cell], records: Sequence[Record]) -> int:
    good, bad = cells[search.good].release, cells[search.bad].release
    name, passed = framework(cells[0].framework), [cells[place].release for place in sorted(search.lacking)]
    skipped = f" {listing(passed)} could not be measured." if passed else ""
    terminal = Terminal()
    if not last:
        if search.decisions[-1].kind == ENDS:
            words = f"{name} {bad} is not decidedly slower than {good}"
        else:
            words = f"the first slow release is after {good} and not after {bad}; more is not decided"
        terminal.say(f"{words} ({count(search.blocks, 'block')}).{skipped}")
        return 1
    test = last.test
    terminal.say(
        f"{name} {bad} is the first slow release: {test.value:.2f}x the throughput of {good} (95 % interval "
        f"{test.low:.2f} to {test.high:.2f}, {count(test.blocks, 'block')}; {count(len(records), 'launch')} in all, "
        f"risk of the search {search.risk:g}).{skipped}"
    )
    pair = {cells[search.good], cells[search.bad]}
    of_pair = [Launch(record, "", "") for record in records if record.cell in pair]
    for each in group(of_pair, by="release"):
        for told, _ in explain_sides(table(each, good)):
            terminal.say(f"Why: {told.title}")
            for line in told.lines:
                terminal.say(f" - {line}")
    return 0
