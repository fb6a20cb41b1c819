"""What a search looks for and among which cells, by its options, and what this machine cannot measure or run of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass, replace

from suite.catalog.devices import has_gpu
from suite.doctor.probes import NOT_INSTALLED, ask_all
from suite.monitor.gpu import NvmlError, open_nvml
from suite.plan.cell import Cell
from suite.plan.command.common import check_numbers, join_values
from suite.plan.matrix import Matrix, MatrixError, with_windows
from suite.plan.objective import Budget, Question, budget, check, limit, needs_energy, objectives, usual_budget
from suite.plan.space import ALL, UP, UPWARD, search_axes, space, with_recipe
from suite.plan.sweeps.sweep import parse_axes
from suite.record.text import clean
from workloads import registry


@dataclass(frozen=True)
class Search:
    """What to search, and within what budget."""

    chosen: Matrix
    question: Question
    budget: Budget
    options: Namespace

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.chosen.cells


def read_search(options: Namespace) -> Search:
    """The search of a parsed command line. Raises `MatrixError`, `CellError` or `workloads.registry.RegistryError`."""
    own = [name for place in options.workloads for name in registry.register(place)]
    if own and not options.workload and not options.matrix:
        options.workload = ",".join(own)
    check_numbers(options, (("price_hour", ""), ("price_kwh", "")))
    if upward := join_values(options.batch) == UP:
        options.batch = UPWARD
    question = Question(
        objectives(options.objective), tuple(map(limit, options.within)), options.margin,
        options.price_hour, options.price_kwh, upward,
    )  # fmt: skip
    check(question)
    gpu = has_gpu() and options.device != "cpu"
    chosen = space(options.matrix or [], {**search_axes(options.search, gpu), **parse_axes(vars(options))}, gpu)
    if question.target is not None:
        chosen = with_recipe(chosen, options.recipe)
    if len(chosen.cells) < 2:
        raise MatrixError(f"there is only one cell, {chosen.cells[0].id}: list values of an axis, or --search {ALL}")
    plan = chosen.plan if options.min_window is None else with_windows(chosen.plan, options.min_window, "--min-window")
    usual = Budget(launches=usual_budget(len(chosen.cells), question.target is not None))
    amount = budget(options.budget) if options.budget else usual
    return Search(replace(chosen, plan=plan), question, amount, options)


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
