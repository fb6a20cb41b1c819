"""What a saved run says of itself at a glance, without its records: its description, and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.analysis.records.saved import SavedRun, decode, find_records, without_surrogates
from suite.plan.cell import Cell, CellError
from suite.record.disturbance import busy_before
from suite.record.record import RecordError
from suite.record.saved import open_run, run_name


def choose_newest(saved: Sequence[Path], own: Path) -> tuple[Path, list[str]]:
    """The run that was saved last; if none is in the folder ``own``, the newest of a quiet machine, and a note."""
    if any(path.is_relative_to(own) for path in saved):
        return saved[-1], []
    chosen = next((path for path in reversed(saved) if not _began_busy(path)), saved[-1])
    others = f"; training-suite list shows all {len(saved)}" if saved[1:] else ""
    return chosen, [f"you have saved no run yet, so this is a published one, {run_name(chosen)}{others}"]


def _began_busy(path: Path) -> bool:
    """Whether others kept the machine busy when the run began."""
    saved = _read(path)
    return bool(saved and busy_before(saved.run))


def cells_of(path: Path) -> list[Cell]:
    """The cells of the run; none of a file that holds no run, or whose records hold a cell each, as older ones do."""
    saved = _read(path)
    try:
        return [Cell.from_json(decode(text)) for text in saved.shared.get("cell", ())] if saved else []
    except (CellError, ValueError):
        return []


def _read(path: Path) -> SavedRun | None:
    try:
        with open_run(path) as file:
            return find_records(without_surrogates(file.read()))
    except (OSError, RecordError, ValueError):
        return None
