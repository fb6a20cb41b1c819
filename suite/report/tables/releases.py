"""The table of releases: what each changed against the one before, and against the oldest."""

from __future__ import annotations

from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.statistics.changes import Step
from suite.catalog.metrics import METRICS
from suite.catalog.setting import TEXT
from suite.catalog.versions import INSTALLED
from suite.record.text import clean
from suite.report.format.names import framework, workload
from suite.report.format.view import View
from suite.report.tables.columns import NAME, Column, Notes, compared, grid, of_metric, settings, varied_settings
from suite.report.tables.frame import Table

NOTE = (
    "Each release runs in an environment of its own, in the same blocks as the others. Ratios above 1 are faster; all "
    "tests of a line are corrected together. Times and memory are those of the launches, and are not tested."
)


def views(table: Table) -> list[View]:
    """Returns one table of all lines; none where no framework ran in several releases."""
    steps = [step for line in table.findings.releases for step in line]
    if not steps:
        return []
    notes, timed, rate = Notes(), table.by_row, of_metric(METRICS["samples_per_s"])
    own = [name for name in varied_settings(table.group) if len({SETTINGS[name](step.row) for step in steps}) > 1]
    tested = any(found and found.verdict for step in steps for found in (step.to_before, step.to_oldest))
    columns = [
        Column("framework", lambda step: framework(step.row.cell.framework), TEXT, where=(NAME,)),
        *settings([name for name in own if name != "release"], lambda step, name: SETTINGS[name](step.row)),
        Column("release", release_name, TEXT, where=(NAME,)),
        Column("Python", lambda step: python_of(step.row), TEXT),
        Column("n", lambda step: len(step.row.ok)),
        Column("samples/s", lambda step: rate.read(timed[step.row.key])),
        *compared("to the one before", lambda step: step.to_before, tested),
        *compared("to the oldest", lambda step: step.to_oldest, tested),
        Column("first step s", lambda step: timed[step.row.key].first_step_s),
        Column("compile s", lambda step: timed[step.row.key].compile_s),
        Column("peak memory", lambda step: _mebibytes(timed[step.row.key].peak_memory_bytes)),
    ]
    title = f"Releases: training throughput of the {workload(table.group)}"
    return [View(title, grid(columns, steps, notes), [NOTE, *notes.lines])]


def _mebibytes(size: int | None) -> str:
    return f"{size / 2**20:,.0f} MiB" if size else ""


def release_name(step: Step) -> str:
    """Returns the release, and whether it is the installed one."""
    return step.release + ("" if step.row.cell.release else f" ({INSTALLED})" if step.release else INSTALLED)


def python_of(row: Row) -> str:
    """Returns the minor version of the Python that a row ran on; empty where no launch recorded it."""
    pythons = {clean(record.environment.get("python", ""), 20).rpartition(".")[0] for record in row.ok}
    return " ".join(sorted(filter(None, pythons)))
