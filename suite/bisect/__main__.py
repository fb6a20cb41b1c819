"""Finds the release of a framework that made a cell slower: ``python -m suite.bisect CELL --good A --bad B``."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence

from framework_training_suite import entry, typed
from suite.analysis.options import STORAGE_FOLDER
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import listing, percent
from suite.bisect.search import ENDS, MIDDLE, Bisection, Decision, Rates, SearchError
from suite.catalog.setting import version_key
from suite.plan.cell import SIZES, Cell, CellError
from suite.plan.command.common import (
    DATA,
    DATA_DIR,
    DEVICE,
    JOURNAL_FOLDER,
    MIN_WINDOW,
    RESUME,
    SEED,
    WORKLOADS,
    add,
    check_numbers,
    command_parser,
)  # fmt: skip
from suite.plan.matrix import MatrixError, smoke, with_windows
from suite.plan.measuring import LAST_LOOK
from suite.profile.chosen import ChoiceError, parse_cell
from suite.record.record import Record
from suite.record.text import clean
from suite.releases.index import releases, resolve
from suite.report.format.names import count, framework
from suite.report.format.terminal import Terminal
from suite.report.tables.frame import table
from suite.report.text.why import explain_sides
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import CommandTerminal
from workloads.data.dataset import DataError
from workloads.registry import RegistryError, register

EPILOG = """\
The good and the bad release are measured in blocks until the bad one is decidedly slower. Then each middle is measured
beside both until it is decided to which of them it is nearer; last, the first slow release is measured beside the one
before it. All decisions together are wrong with at most the --risk. Releases are built as they are needed. A release
between the two that cannot be measured is passed over. With --why, launches are profiled, and the answer names what
changed.

examples:
  python -m suite.bisect imdb_lstm-jax --size small --good 0.8.0 --bad 0.10.2
  python -m suite.bisect imdb_lstm-jax-fp32-b32 --good 0.8.0 --bad newest --why
  python -m suite.bisect cifar100_cnn-pytorch --good 2.9.1 --bad 2.10.0.dev3 --releases 2.10.0.dev1,2.10.0.dev2

exit status: 0 found; 1 no release is decidedly slower, or not all is decided; 2 wrong usage, or the search cannot go
on; 130 interrupted
"""

EXPECTED = (
    CellError, ChoiceError, DataError, JournalError, LaunchError, MatrixError, OSError, RegistryError, SearchError,
)  # fmt: skip


@entry("continue with the same options and --resume")
def main(arguments: Sequence[str] | None = None) -> int:
    """Search, save the launches, and print the answer."""
    options = _parse(arguments)
    try:
        cell, versions = _read_question(options)
        return _search(cell, versions, options)
    except EXPECTED as error:
        print(f"suite.bisect: {clean(error, 1000)}", file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser("suite.bisect", __doc__, EPILOG)
    parser.add_argument("cell", metavar="CELL", help="a cell's id, or how it begins: imdb_lstm-jax-fp32-b32")
    parser.add_argument("--good", required=True, metavar="RELEASE", help="a release that is fast")
    parser.add_argument("--bad", required=True, metavar="RELEASE", help="a later one that is slow, or newest")
    parser.add_argument(
        "--releases", metavar="LIST", help="the releases between them (default: all of the index that fit this machine)"
    )
    parser.add_argument(
        "--risk", type=percent, default=0.05, metavar="PERCENT",
        help="of any wrong decision in the whole search (default: 5)",
    )  # fmt: skip
    parser.add_argument("--why", action="store_true", help="profile the launches, and say what changed")
    parser.add_argument("--size", choices=SIZES, help="of the workload (default: that of the cell)")
    add(parser.add_argument, WORKLOADS, MIN_WINDOW, DATA, DATA_DIR, DEVICE, SEED, RESUME)
    add(parser.add_argument, JOURNAL_FOLDER, STORAGE_FOLDER)
    return parser.parse_args(arguments)


def _read_question(options: argparse.Namespace) -> tuple[Cell, list[str]]:
    """The cell, and all releases from the good to the bad one. Raises one of `EXPECTED`."""
    check_numbers(options)
    for place in options.workloads:
        register(place)
    cell = parse_cell(options.cell)
    cell = cell.but(size=options.size or cell.size, release="")
    name = cell.framework
    good, bad = (each.partition("=")[2] for each in resolve([f"{name}={options.good}", f"{name}={options.bad}"]))
    if options.releases:
        between = options.releases.split(",")
    else:
        between = [each.version for each in releases(name) if each.minors]
    for version in (good, bad, *between):
        if not version:
            raise MatrixError("a release is empty; write versions, such as 0.9.2,0.10.2")
        cell.but(release=version)  # checks it
    inner = (each for each in between if version_key(good) < version_key(each) < version_key(bad))
    if version_key(good) >= version_key(bad):
        raise MatrixError(f"--good {good} is not older than --bad {bad}")
    return cell, [good, *sorted(dict.fromkeys(inner), key=version_key), bad]


def _search(cell: Cell, versions: Sequence[str], options: argparse.Namespace) -> int:
    """Launch until the search ends; what was measured is saved in any case. Returns the exit status."""
    terminal = CommandTerminal()
    cells = [cell.but(release=version) for version in versions]
    plan = smoke().plan
    plan = plan if options.min_window is None else with_windows(plan, options.min_window, "--min-window")
    asked = {"releases": list(versions), "risk": options.risk, "cell": cell.id}
    settings = Settings.of(options, f"bisect-{cell.id}", LAST_LOOK, plan, search=asked, profile=options.why)
    run = Run(settings, [(cells[0], 0), (cells[-1], 0)], terminal.say, terminal.show)
    found, done = None, False
    try:
        run.prepare()
        search = Bisection(
            versions, _measuring(run, cells, options.seed), options.risk,
            told=lambda made: terminal.say(_describe(made, versions)),
        )  # fmt: skip
        terminal.say(
            f"{count(len(versions), 'release')} from {versions[0]} to {versions[-1]}; each decision has a risk of "
            f"{search.level:.1%}"
        )
        found, done = search.go(), True
    finally:
        terminal.show("")
        run.close()
        if run.records:
            path = save_run(run, options.storage, f"bisect-{cell.id}")
            compare = typed(f"python -m suite.compare {path} --by release")
            print(f"Launches: {path}\nCompare them with: {compare}", file=sys.stderr)
    assert done
    return _answer(search, found, cells, run.records)


def _measuring(run: Run, cells: Sequence[Cell], seed: int) -> Callable[[Sequence[int], int], Rates]:
    """What launches one block, in a random order that a resumed search repeats."""

    def measure(places: Sequence[int], block: int) -> Rates:
        order = list(places)
        random.Random(f"{seed} {block}").shuffle(order)  # noqa: S311 - no secret
        records = {place: run.next(cells[place], block) for place in order}
        return {place: record.samples_per_s if record.outcome.ok else None for place, record in records.items()}

    return measure


def _describe(made: Decision, versions: Sequence[str]) -> str:
    """A decision in one line."""
    test, release = made.test, versions[made.place]
    to = "the one before" if made.kind not in (ENDS, MIDDLE) else versions[0]
    words = "undecided" if made.slow is None else "slow" if made.slow else "fast"
    ratio = f"{test.value:.2f}x of {to} ({test.low:.2f} to {test.high:.2f})"
    return f"{release}: {words} after {count(made.blocks, 'block')}, {ratio}"


def _answer(search: Bisection, found: Decision | None, cells: Sequence[Cell], records: Sequence[Record]) -> int:
    """Print what was found, and return the exit status."""
    good, bad = cells[search.good].release, cells[search.bad].release
    name, passed = framework(cells[0].framework), [cells[place].release for place in sorted(search.lacking)]
    skipped = f" {listing(passed)} could not be measured." if passed else ""
    terminal = Terminal()
    if not found:
        last = search.decisions[-1]
        if last.kind == ENDS:
            words = f"{name} {bad} is not decidedly slower than {good}"
        else:
            words = f"the first slow release is after {good} and not after {bad}; more is not decided"
        terminal.say(f"{words} ({count(search.blocks, 'block')}).{skipped}")
        return 1
    test = found.test
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


if __name__ == "__main__":
    sys.exit(main())
