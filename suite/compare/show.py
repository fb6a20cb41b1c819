"""What `suite.compare` prints, in each of its formats."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from framework_training_suite import spelled, typed
from suite.analysis.records.load import REPORT
from suite.analysis.rows.runs import Count, counts
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.terminal import Terminal
from suite.report.html.folder import Compared, text_of, views_of
from suite.report.screen import markdown
from suite.report.screen.comparison import to_json
from suite.report.screen.short import screen, wrap
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table
from suite.report.tables.legend import legend
from suite.report.text import missing
from suite.report.text.why import explain_sides, is_profiled, no_profile

#: The screen where there is no terminal: a pipe gets the same on every machine.
WIDTH = 120


def show(compared: Compared, notes: Sequence[str], options: Namespace, folder: Path, stands: bool) -> None:
    """Print the comparison to stdout, in the format of the options.

    ``folder`` is where its report goes, unless what ``stands`` there stays. Everything but the one screen of a terminal
    holds causes, where there are profiles; ``--why`` prints them there.
    """
    terminal = Terminal()
    here, says = (typed, spelled) if options.format == "terminal" else (str, str)  # the others are read elsewhere too
    notes = [says(clean(note)) for note in notes]
    notes += [no_profile(compared.tables, here)] if options.why and not is_profiled(compared.tables) else []
    runs = counts(compared.loaded)
    incomplete = [*missing.sentences(runs, here), *_say_busy(runs)]
    if options.format == "json":
        terminal.out(to_json(compared.tables, compared.learned, compared.loaded, compared.sources, notes), end="")
    elif options.format == "markdown":
        summary = "".join(f"{markdown.escape(text)}\n\n" for text in _answer(compared))
        lines = "".join(f"- {markdown.escape(note)}\n" for note in [*incomplete, *notes])
        terminal.out(f"Read: {markdown.escape(_sources(compared))}\n\n{summary}{text_of(compared)}\n{lines}", end="")
    elif options.verbose or options.why:
        _everything(terminal, compared, [*incomplete, *notes], options.verbose)
    else:
        report = report_left_alone(folder) if stands else f"Full report: {folder / REPORT}"
        _screen(terminal, compared, [*incomplete, *notes], report)


def _say_busy(runs: Sequence[Count]) -> list[str]:
    """Says which runs began on a busy machine."""
    busy = ((each.run, each.busy_cores) for each in runs)
    return [f"Busy machine: other programs used {cores:.1f} cores when run {run} began" for run, cores in busy if cores]


def report_left_alone(folder: Path) -> str:
    """Returns that files of an earlier comparison stay, and how to write this one."""
    return f"{folder} was left as it is; --output DIR writes this comparison"


def _sources(compared: Compared) -> str:
    return ", ".join(map(clean, compared.sources))


def _answer(compared: Compared) -> list[str]:
    """Returns the sentences of the answer, then the machine."""
    findings = compared.answer
    return [*findings.sentences, f"Measured on: {findings.machine or 'a machine that was not recorded'}."]


def _screen(terminal: Terminal, compared: Compared, notes: Sequence[str], report: str) -> None:
    width = terminal.width if terminal.is_terminal else WIDTH
    findings = compared.answer
    launches = count(len(compared.loaded.launches), "launch")
    first = f"{_sources(compared)}: {launches}{f' on {findings.machine}' if findings.machine else ''}"
    last = f"{report}. All ratios, columns and notes: add --verbose."
    shown = screen(findings, compared.tables, compared.learned, width, more="add --verbose", remarks=notes, last=[last])
    for line in (*wrap([first], width - 1), "", *shown):
        terminal.print(line, soft_wrap=True)


def _everything(terminal: Terminal, compared: Compared, notes: Sequence[str], whole: bool) -> None:
    """Print the answer and what explains it; with ``whole`` also the tables of all cells, and all settings."""
    terminal.print(f"Read: {_sources(compared)}\n", soft_wrap=True)
    for text in _answer(compared):
        terminal.say(text)
    for number, view in enumerate(views_of(compared) if whole else ()):
        terminal.print("\n" if number else "")
        terminal.show(view)
    if compared.tables and whole:
        terminal.print()
        terminal.say(legend(compared.tables))
    for table in compared.tables:
        _causes(terminal, table, whole)
    for note in notes:
        terminal.say(f"note: {note}")


def _causes(terminal: Terminal, table: Table, whole: bool) -> None:
    """Print what explains each pair once, with ``whole`` in all settings, and where each row's time goes."""
    for most, others in explain_sides(table):
        for told in (most, *others):
            terminal.print()
            shown = whole or told is most
            terminal.say(f"Why: {told.title}" if shown else f"Likewise, see --verbose: {told.title}")
            for line in told.lines if shown else ():
                terminal.say(f" - {line}")
    for view in breakdowns(table) if is_profiled([table]) else ():
        terminal.print()
        terminal.show(view)
