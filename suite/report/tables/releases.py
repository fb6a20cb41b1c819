"""The table of releases: what each changed against the one before, and against the oldest."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import NONE, figure, middle
from suite.analysis.statistics.ratios import Ratio
from suite.analysis.statistics.releases import Step
from suite.catalog.metrics import METRICS
from suite.catalog.setting import INSTALLED
from suite.record.text import clean
from suite.report.format.names import framework, workload
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables.figures import Notes, metric_text, ratio, varied_settings
from suite.report.tables.frame import Table

NOTE = (
    "Each release runs in an environment of its own, in the same blocks as the others. Ratios above 1 are faster; all "
    "tests of a line are corrected together. Times and memory are those of the launches, and are not tested."
)


def views(table: Table) -> list[View]:
    """Returns one table of all lines; none where no framework ran in several releases."""
    lines = table.findings.releases
    if not lines:
        return []
    notes = Notes()
    own = [name for name in varied_settings(table.group) if name != "release" and _varies(name, lines)]
    tested = any(each.verdict for line in lines for step in line for each in _ratios(step))
    verdict = ["verdict"] if tested else []
    headers = [
        "framework", *own, "release", "Python", "n", "samples/s", "to the one before", *verdict, "to the oldest",
        *verdict, "first step s", "compile s", "peak memory",
    ]  # fmt: skip
    rows = [_row(table, step, own, tested, notes) for line in lines for step in line]
    left = {"framework", "release", "Python", "verdict", *own}
    align = [LEFT if header in left else RIGHT for header in headers]
    title = f"Releases: training throughput of the {workload(table.group)}"
    return [View(title, Grid(headers, rows, align, len(own) + 2), [NOTE, *notes.lines])]


def _row(table: Table, step: Step, own: Sequence[str], tested: bool, notes: Notes) -> list[str]:
    row = step.row
    timed = table.cells[table.group.rows.index(row)]
    changes = []
    for found in (step.to_before, step.to_oldest):
        changes += [ratio(found, notes) if found else NONE]
        changes += [(found.verdict if found else "") or NONE] if tested else []
    memory = timed.peak_memory_bytes
    return [
        framework(row.cell.framework),
        *(middle(SETTINGS[name](row)) for name in own),
        release_name(step),
        python_of(row) or NONE,
        str(len(row.ok)),
        metric_text(METRICS["samples_per_s"])(timed),
        *changes,
        figure(timed.first_step_s),
        figure(timed.compile_s),
        f"{memory / 2**20:,.0f} MiB" if memory else NONE,
    ]


def release_name(step: Step) -> str:
    """Returns the release, and whether it is the installed one."""
    return step.release + ("" if step.row.cell.release else f" ({INSTALLED})" if step.release else INSTALLED)


def python_of(row: Row) -> str:
    """Returns the minor version of the Python that a row ran on; empty where no launch recorded it."""
    pythons = {clean(record.environment.get("python", ""), 20).rpartition(".")[0] for record in row.ok}
    return " ".join(sorted(filter(None, pythons)))


def _ratios(step: Step) -> list[Ratio]:
    return [each for each in (step.to_before, step.to_oldest) if each]


def _varies(name: str, lines: Sequence[Sequence[Step]]) -> bool:
    return len({SETTINGS[name](step.row) for line in lines for step in line}) > 1
