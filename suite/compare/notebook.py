"""Recorded runs in a notebook: ``import suite``, then `suite.runs` and `suite.load`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.analysis.records.load import find, find_saved
from suite.analysis.records.load import load as load_files
from suite.analysis.rows.axes import AXES, is_axis
from suite.catalog.suggest import unknown
from suite.compare.comparing import group_launches, make
from suite.plan.cell import FRAMEWORKS
from suite.plan.command.common import SAVED
from suite.plan.measuring import MARGIN
from suite.record.saved import run_name
from suite.report.html.folder import Compared
from suite.report.screen import markdown
from suite.report.tables.launches import launch_table
from suite.report.text.answer import answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from suite.report.plots.kinds import Kind
    from suite.report.plots.traces import Chart


class Answer(str):
    """The answer of a comparison, a line for each sentence; a notebook shows it as a list."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _page(self)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {markdown.escape(line)}" for line in self.splitlines())


@dataclass(frozen=True, repr=False)
class Run:
    """A recorded run, or several that are compared; all that ``training-suite compare`` says of it.

    ``notes`` are those on its files.
    """

    compared: Compared
    notes: tuple[str, ...] = ()

    @cached_property
    def launches(self) -> DataFrame:
        """A row per launch, failed ones included, with the columns of `launches.csv` (results/SCHEMA.md)."""
        return _frame(launch_table(self.compared.loaded.launches))

    @cached_property
    def cells(self) -> DataFrame:
        """A row per cell, with the columns of `cells.csv`, or of `accuracy.csv` where cells train to their end."""
        timed = [row for each in self.compared.tables for row in each.rows]
        return _frame([*timed, *(row for each in self.compared.learned for row in each.rows)])

    @cached_property
    def ratios(self) -> DataFrame:
        """The ratios of throughput to ``ratio_baseline``: a cell's names, and its columns of `cells.csv` on its ratio.

        Each is as in every other output: tested where the design allows, and corrected for all comparisons.
        """
        every = [row for each in self.compared.tables for row in each.rows]
        rows = [row for row in every if row["ratio"] is not None and row["ratio_baseline"] != row["cell"]]
        own = ("workload", "size", "cell", "framework", "run")
        return _frame([{name: row[name] for name in row if name in own or name.startswith("ratio")} for row in rows])

    @cached_property
    def answer(self) -> Answer:
        """What the tests of all tables say, in sentences."""
        return Answer("\n".join(answer(self.compared.tables, self.compared.learned).sentences))

    @property
    def plots(self) -> list[str]:
        """The names of the plots that there are of this run, for `plot`."""
        return list(dict.fromkeys(kind.name for kind, _, _ in self.charts))

    def plot(self, kind: str, workload: str = "") -> Figure:
        """A plot of the run as matplotlib's figure: of the first workload, or of the first whose name has ``workload``.

        Raises `ValueError` with the names that there are.
        """
        from suite.report.plots import figure

        if kind not in self.plots:
            raise ValueError(unknown("plot", kind, self.plots))
        of_kind = {name: chart for each, name, chart in self.charts if each.name == kind}
        name = next((name for name in of_kind if workload in name), None)
        if name is None:
            raise ValueError(unknown("workload", workload, of_kind))
        return figure(of_kind[name])

    @cached_property
    def charts(self) -> list[tuple[Kind, str, Chart]]:
        """Every plot that there is: its kind, what it is of, and what is drawn."""
        from suite.report.plots import find_charts

        return list(find_charts(self.compared.tables, self.compared.learned))

    def __repr__(self) -> str:
        return f"{', '.join(self.compared.sources)}: {len(self.compared.loaded.launches)} launches"

    def _repr_html_(self) -> str:
        return _page(self.answer, repr(self))

    def _repr_markdown_(self) -> str:
        return f"**{markdown.escape(repr(self))}**\n\n{self.answer._repr_markdown_()}"


def runs(storage: Path | str = SAVED) -> DataFrame:
    """The saved runs, the newest first: ``name``, when it was ``saved``, whether it is the user's ``own``, ``path``."""
    rows = [
        {
            "name": run_name(path),
            "saved": datetime.fromtimestamp(path.stat().st_mtime, UTC),
            "own": path.is_relative_to(storage),
            "path": str(path),
        }
        for path in reversed(find_saved(Path(storage)))
    ]
    return _frame(rows, ["name", "saved", "own", "path"])


def load(
    *names: str | Path,
    by: str = "",
    baseline: str | None = None,
    across_machines: bool = False,
    margin: float = MARGIN,
    price_hour: float | None = None,
    price_kwh: float | None = None,
    storage: Path | str = SAVED,
) -> Run:
    """The runs of these names, numbers or files; without any the run saved last.

    The other arguments are the options of ``training-suite compare``. Raises `suite.analysis.records.load.LoadError`,
    and `ValueError` for an axis or a framework that there is not.
    """
    by = by or ("machine" if across_machines else "framework" if baseline else "")
    if by and not is_axis(by):
        raise ValueError(unknown("axis", by, AXES))
    if by == "framework" and baseline and baseline not in FRAMEWORKS:
        raise ValueError(unknown("framework", baseline, FRAMEWORKS))
    paths, notes = find([str(name) for name in names], Path(storage))
    loaded = load_files(paths)
    options = Namespace(
        by=by, baseline=baseline, across_machines=across_machines, margin=margin, price_hour=price_hour,
        price_kwh=price_kwh, currency="", one_file=False, publish=None,
    )  # fmt: skip
    return Run(make(loaded, group_launches(loaded, options), options, paths), (*notes, *loaded.notes))


def _page(text: Answer, name: str = "") -> str:
    from suite.report.html.document import render

    return render("notebook.html.jinja", name=name, lines=text.splitlines())


def _frame(rows: Any, columns: Iterable[str] | None = None) -> DataFrame:
    from pandas import DataFrame  # which no command needs

    return DataFrame(rows, columns=None if columns is None else [*columns])
