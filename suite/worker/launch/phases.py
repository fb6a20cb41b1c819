"""The phases of a cell, over the object that is timed: training, its steps alone, and its loader alone.

With several devices there is a fourth: the same steps without communication, on a model that is this process's own.
Which function makes the steps of a phase is declared in `suite.catalog.phases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any, NamedTuple

from suite.catalog.phases import PHASES, TRAIN
from suite.plan.measuring import Plan
from suite.record.parts.history import Ledger
from suite.record.record import Phase, Window
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.description import check
from suite.worker.launch.measure import Say, Series, Steps, in_order

HELD_BATCHES = 4  # batches that the compute phase keeps on the device and takes in turn

Send = Callable[..., None]


class Measured(NamedTuple):
    """The phases by name, of each this rank's own seconds of a step, one for each window; counts, and batches held."""

    phases: dict[str, Phase]
    own_step_s: dict[str, list[float]]
    ledger: Ledger
    held: Sequence[Any] = ()

    @property
    def train(self) -> Phase:
        return self.phases[TRAIN]


@dataclass(frozen=True)
class Timed:
    """What the steps of a phase run on: what is timed, its loader, and some batches that are ``held`` on the device.

    ``local`` is a compiled training without communication. ``model`` is the trained model as it serves, and ``pending``
    how many of its answers must be waited for, None for all. ``last`` gets what a window ended with, to be checked.
    ``saving`` saves a checkpoint.
    """

    training: Any
    loader: Any
    held: Sequence[Any] = ()
    local: Any = None
    model: Any = None
    pending: int | None = None
    saving: Any = None
    last: list[Any] = field(default_factory=list)

    def steps(self, name: str) -> Steps:
        """The steps of the phase of this name, by the function that its declaration names."""
        module, _, function = PHASES[name].steps.partition(":")
        made: Steps = getattr(import_module(module), function)(self)
        return made


def train(timed: Timed) -> Steps:
    """The steps of `train`."""
    return training_steps(timed.loader, timed.training, timed.last)


def compute(timed: Timed) -> Steps:
    """The steps of `compute`."""
    return training_steps(cycle(timed.held), timed.training, timed.last)


def load(timed: Timed) -> Steps:
    """The steps of `input`."""
    return loading_steps(timed.loader, timed.training)


def local(timed: Timed) -> Steps:
    """The steps of `local`, on the same batches."""
    own_batches = [timed.local.put(timed.training.get(held)) for held in timed.held]
    return training_steps(cycle(own_batches), timed.local, timed.last)


def measure_phases(
    training: Any, loader: Any, plan: Plan, *, batch: int, send: Send, spawned_ns: int, tools: Any,
    ranks: Ranks = ALONE, local: Any = None, chill: Callable[[str], None] = lambda _: None, lengths: Any = None,
) -> Measured:  # fmt: skip
    """Measure the plan's phases, and send the results so far after each burst, and what was counted at the end.

    ``batch`` is how many samples a step sees, on all devices together; spans are in seconds since ``spawned_ns``.
    ``local`` is a compiled training without communication; ``tools`` know how many steps an optimizer has counted
    itself. ``chill`` is called with the name of a phase that loads, before its windows. Raises `RecompiledError` if a
    window had to compile, and `DivergedError` for a loss that is not finite. Batches of several ``lengths`` are held in
    a whole round, and what compiles for them is counted.
    """
    plan = fit_plan(plan, training)
    if lengths:
        lengths.cover()
    held = lengths.hold() if lengths else [next(loader) for _ in range(HELD_BATCHES)]
    compiled, delivered, updated = training.count_compiled(), loader.delivered, tools.updates(training)
    taken = [name for name in plan.with_parts if not PHASES[name].is_late and (name != "local" or local)]
    series = {}
    for name in taken:
        timed = Timed(training, loader, held, local)
        checked = local if name == "local" else training
        say, begin = say_window(name, timed.last, checked, batch, send), partial(_begin, name, send, chill)
        say = lengths.watch(name, say) if lengths else say
        series[name] = Series(
            timed.steps(name), plan, say, ranks=ranks, begin=begin, whole=lengths.steps if lengths else 1
        )
    others = [name for name in taken if name != TRAIN]
    turns = [series[name] for name in others if PHASES[name].in_turn]
    for _ in in_order(series[TRAIN], turns, [series[name] for name in others if not PHASES[name].in_turn], plan):
        send_phases(send, collect_phases(series, spawned_ns))
    phases = collect_phases(series, spawned_ns)
    shapes = lengths.found(phases) if lengths else None
    if not lengths and training.count_compiled() != compiled:
        raise RecompiledError(f"compiled inside the windows: {compiled} before them, {training.count_compiled()} after")
    now = tools.updates(training)
    ledger = Ledger(
        loader.delivered - delivered,
        None if now is None else now - (updated or 0),
        shapes=shapes,
    )
    send(part={"ledger": asdict(ledger)})
    own_step_s = {name: each.own_step_s for name, each in series.items()}
    return Measured(phases, own_step_s, ledger, held if plan.serves or plan.saves else ())


def watch_lengths(source: Any, *parts: Any) -> Any:
    """What watches batches of several lengths; None, and nothing imported, where they have one."""
    return import_module("suite.worker.launch.lengths").Lengths(source, *parts) if source.varied else None


def collect_phases(series: dict[str, Series], spawned_ns: int) -> dict[str, Phase]:
    """The phases so far, by name."""
    return {name: shift_spans(each.phase(), spawned_ns) for name, each in series.items() if each.windows}


def send_phases(send: Send, phases: dict[str, Phase]) -> None:
    """Send these phases, which take the place of those that were sent before."""
    send(part={"phases": {name: asdict(phase) for name, phase in phases.items()}})


def fit_plan(plan: Plan, training: Any) -> Plan:
    """The plan with windows, and the time to warm up, that the interface of a training needs."""
    least_s = max(plan.min_window_s, getattr(training, "least_window_s", 0.0))
    return (
        plan
        if least_s == plan.min_window_s
        else replace(plan, min_window_s=least_s, max_warmup_s=max(plan.max_warmup_s, 3 * least_s))
    )


def training_steps(batches: Any, training: Any, last: list[Any]) -> Steps:
    """Training steps that leave the last loss in ``last``, to be read after the window."""

    def steps(count: int) -> None:
        if run := getattr(training, "run", None):  # an interface that has a loop of its own
            losses = [run(batches, count)]
        else:
            losses = [training.step(next(batches)) for _ in range(count)]
        training.fence(losses[-1])
        last[:] = losses[-1:]

    return steps


def loading_steps(batches: Any, training: Any) -> Steps:
    """Steps that only bring batches to the device."""

    def steps(count: int) -> None:
        for _ in range(count):
            batch = next(batches)
        training.fence(batch)

    return steps


def shift_spans(phase: Phase, spawned_ns: int) -> Phase:
    """The phase with its spans in seconds since ``spawned_ns``."""
    start_s = spawned_ns / 1e9
    return replace(
        phase, spans=tuple((round(begin - start_s, 6), round(end - start_s, 6)) for begin, end in phase.spans)
    )


def measure_late(training: Any, loader: Any, measured: Measured, ranks: Ranks, **asked: Any) -> Any:
    """Measure what the plan saves and serves, for which the memory of training was read before; returns answers."""
    plan = asked["job"].plan
    if plan.saves:
        save = import_module("suite.worker.launch.checkpoints").measure_checkpoints
        measured = save(training, measured, **asked, ranks=ranks)
    if plan.serves:
        return import_module("suite.worker.launch.inference").measure_inference(training, loader, measured, **asked)
    return None


def _begin(name: str, send: Send, chill: Callable[[str], None]) -> None:
    if PHASES[name].loads:
        chill(name)
    send(begin=name)


def say_window(name: str, losses: Iterable[Any], training: Any, batch: int, send: Send) -> Say:
    """A function that checks the last loss of each window, and says how fast it was."""

    def say(window: Window) -> None:
        check([*losses], training, f"the {name} phase")
        send(progress=name, samples_per_s=batch * window.steps / window.seconds)

    return say
