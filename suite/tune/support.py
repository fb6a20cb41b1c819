"""What this machine cannot measure or run, found before the first launch."""

from __future__ import annotations

from collections.abc import Iterable

from suite.doctor.probes import NOT_INSTALLED, ask_all
from suite.monitor.gpu import NvmlError, open_nvml
from suite.plan.cell import Cell
from suite.plan.matrix import MatrixError
from suite.plan.objective import Question, needs_energy
from suite.record.text import clean


def refuse_unmeasurable(question: Question, on_cpu: bool) -> None:
    """Raise `MatrixError` for an objective or a limit that this machine cannot measure, in one line."""
    if not (name := needs_energy(question)):
        return
    reason = "the run uses the CPU, whose energy the suite does not measure" if on_cpu else ""
    if not reason:
        try:
            with open_nvml() as (_, gpus):
                readings = gpus[0].read() if gpus else {}
        except NvmlError as error:
            reason = str(error)
        else:
            has_energy = readings.keys() & {"energy_j", "power_w"}
            reason = "" if has_energy else "the GPU tells neither energy nor power" if gpus else "no GPU is visible"
    if reason:
        raise MatrixError(
            f"{name} cannot be measured here: {reason}; search for another --objective, such as samples/s"
        )


def find_unsupported(cells: Iterable[Cell]) -> dict[Cell, str]:
    """The cells whose framework or precision this machine lacks, with the reasons, as the frameworks themselves tell.

    A framework that gives no answer in time is not held to lack anything; its launches decide.
    """
    cells = [cell for cell in cells if not cell.release]  # whose environments may still have to be built
    if not cells:
        return {}
    answers = dict(ask_all(names=list(dict.fromkeys(cell.framework for cell in cells))))
    lacking = {}
    for cell in cells:
        answer = answers[cell.framework]
        if answer.get("lack") == NOT_INSTALLED:
            lacking[cell] = clean(f"{cell.framework} {answer['error']}")
        elif reason := answer.get("precisions", {}).get(cell.precision, ""):
            lacking[cell] = clean(f"unsupported: {reason}")
    return lacking
