"""What one launch found: a versioned schema that is written once and read for years.

Standard library only. `Record.from_json` accepts what `Record.to_json` wrote, refuses all else with one line that
names the field, and never lets a number through that no measurement can give.
"""

from __future__ import annotations

import contextlib
import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from suite.plan.cell import Cell, CellError
from suite.plan.measuring import CONTROL
from suite.record.evidence import Identity
from suite.record.history import COUNT_MOST, NUMBER_MOST, SECONDS_LEAST, SECONDS_MOST, Course

SCHEMA = 4  # 1 had no span and no metrics, 2 no course, 3 no evidence of identity besides the fingerprint

#: How a launch can end. `unsupported` and `out-of-memory` skip, `ok` passes, the others fail the test.
STATUSES = ("ok", "unsupported", "out-of-memory", "timeout", "crashed", "diverged", "error")
SKIPPED = ("unsupported", "out-of-memory")

#: Ends of a launch that say that its batch did not fit: so do a process that the system kills, and one that aborts in a
#: library that cannot allocate.
DID_NOT_FIT = ("out-of-memory", "crashed", "timeout")

PHASES = ("train", "compute", "input")

#: Objects and lists within one another, at most.
LEVELS_MOST = 50


#: The fields that the parent of a worker fills in; a worker has no say in them.
PARENTS = ("schema", "cell", "launch", "started", "run", "metrics", "flags", "log")

#: Letters that are kept of a reason.
REASON_MOST = 1000


class RecordError(ValueError):
    """Text that is no record; the message names the field and what is wrong with it."""


@dataclass(frozen=True)
class Outcome:
    """How the launch ended, and in one line why, if it did not end well."""

    status: str = "ok"
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True, slots=True)
class Window:
    """``steps`` steps between two device fences, and the seconds that lay between them."""

    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Phase:
    """One measured phase: the windows that count, and the warm-up windows before them.

    ``span`` is when the first of those that count began and the last ended, in seconds since the worker was spawned.
    """

    windows: tuple[Window, ...]
    warmup: tuple[Window, ...] = ()
    steady: bool = True
    span: tuple[float, float] | None = None

    @property
    def step_s(self) -> float:
        """Total time over total steps: the launch's value for this phase."""
        # Exact, as Python 3.12 rounds a plain sum otherwise than 3.11 does.
        return math.fsum(w.seconds for w in self.windows) / sum(w.steps for w in self.windows)

    @property
    def step_times_s(self) -> list[float]:
        """The mean step time of each window, in seconds: the samples behind the quartiles."""
        return [w.seconds / w.steps for w in self.windows]


@dataclass(frozen=True, slots=True)
class Record:
    """What one launch found.

    ``launch`` counts the launches of a cell from 0, the control's from `CONTROL`. ``run`` describes the run it belongs
    to (id, seed, position in the order), ``data`` (name, kind, digest) and ``workload`` (parameters, FLOPs per sample,
    digest of the spec) what was trained, ``settings`` what the framework said it used, ``startup`` the seconds of each
    part from spawn to ready, ``memory`` bytes by kind, ``environment`` machine, versions and its digest, ``metrics``
    what `suite.monitor` saw of host and GPUs, ``course`` the epochs of a cell that has a recipe. ``log`` holds the last
    lines of the worker's own output when the launch failed.
    """

    cell: Cell
    outcome: Outcome
    launch: int = 0
    started: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    identity: Identity | None = None
    startup: dict[str, float] = field(default_factory=dict)
    compile_s: float | None = None
    first_step_s: float | None = None
    phases: dict[str, Phase] = field(default_factory=dict)
    course: Course | None = None
    memory: dict[str, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What a run holds at most one of: the cell's id and the launch."""
        return f"{self.cell.id}#{self.launch}"

    @property
    def control(self) -> bool:
        """Whether this launch is of the A/A control."""
        return self.launch >= CONTROL

    @property
    def block(self) -> int:
        """The block that it ran in."""
        return self.launch % CONTROL

    @property
    def effective_batch(self) -> int:
        """Samples that one update saw: the cell's, or where the cell left it open, what was found to fit."""
        found: int = self.cell.effective_batch or self.settings.get("effective_batch", 0)
        return found

    @property
    def samples_per_s(self) -> float | None:
        """Training throughput, or None where the launch did not get that far."""
        phase = self.phases.get("train")
        return self.effective_batch / phase.step_s if phase else None

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """Raises `RecordError` for what is no record, for a newer schema, and for impossible numbers."""
        _require(isinstance(data, dict) and "schema" in data, "record", "has no schema; this is not the suite's")
        schema = data["schema"]
        _require(type(schema) is int and schema >= 1, "schema", f"is {schema!r}")
        _require(schema <= SCHEMA, "schema", f"is {schema}, newer than the {SCHEMA} known here: update the suite")
        known = {f.name for f in fields(cls)}
        values = {name: value for name, value in data.items() if name != "schema"}
        _require(not values.keys() - known, "record", f"has unknown fields {sorted(values.keys() - known)}")
        _require("cell" in values and "outcome" in values, "record", "lacks its cell or its outcome")
        try:
            values["cell"] = Cell.from_json(values["cell"])
            values["outcome"] = Outcome(values["outcome"]["status"], values["outcome"].get("reason", ""))
            values["phases"] = {name: _phase(phase) for name, phase in values.get("phases", {}).items()}
            if values.get("identity") is not None:
                values["identity"] = Identity.from_json(values["identity"])
            if values.get("course") is not None:
                values["course"] = Course.from_json(values["course"])
            values["flags"] = _items(values.get("flags", ()))
            values["log"] = _items(values.get("log", ()))
        except (CellError, TypeError, KeyError, AttributeError, ValueError) as error:
            raise RecordError(f"not a record: {error}") from None
        record = cls(**values)
        _validate(record)
        return record


def _phase(data: Mapping[str, Any]) -> Phase:
    windows, warmup = (tuple(Window(**w) for w in data[name]) for name in ("windows", "warmup"))
    span = data.get("span")
    return Phase(windows, warmup, data["steady"], None if span is None else _items(span))


def _items(data: Any) -> tuple[Any, ...]:
    """A tuple of a list; of text it would be one of letters."""
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"{reprlib.repr(data)} is no list")
    return tuple(data)


def _validate(record: Record) -> None:
    _require(record.outcome.status in STATUSES, "outcome", f"is {record.outcome.status!r}")
    _require(_count(record.launch), "launch", f"is {reprlib.repr(record.launch)}")
    for name in ("run", "data", "workload", "settings", "startup", "memory", "environment", "metrics"):
        _require(isinstance(getattr(record, name), dict), name, "is not an object")
    for name in ("run", "workload", "settings", "environment", "metrics"):
        _require(_writable(getattr(record, name)), name, "holds a number that is not finite")
    for name in ("started", "flags", "log"):
        found = getattr(record, name)
        _require(_texts([found] if name == "started" else found), name, "holds what is no text")
    _require(_texts([record.outcome.reason]), "outcome", "has a reason that is no text")
    _require(_texts(record.data.values()), "data", "holds what is no text")
    batch = record.effective_batch
    usable = type(batch) is int and (0 < batch <= COUNT_MOST or not (batch or record.outcome.ok))
    _require(usable, "settings", f"say batch {reprlib.repr(batch)}")
    _require(not record.outcome.ok or "train" in record.phases, "phases", "lack train, though the outcome is ok")
    whole = bool(record.course and record.course.finished)
    _require(
        not (record.outcome.ok and record.cell.recipe) or whole, "course", "is not whole, though the outcome is ok"
    )
    for name, phase in record.phases.items():
        _require(name in PHASES, "phases", f"name {name!r}")
        _validate_phase(phase, f"phase {name}")
    times = [t for t in (record.compile_s, record.first_step_s, *record.startup.values()) if t is not None]
    _require(_finite(times, SECONDS_MOST) and all(t >= 0 for t in times), "startup", "holds a time that is no time")
    _require(_finite(record.memory.values()), "memory", "holds what is no number")
    if record.identity:
        problem = record.identity.problem()
        _require(not problem, "identity", problem)


def _validate_phase(phase: Phase, what: str) -> None:
    _require(len(phase.windows) > 0, what, "has no window")
    _require(isinstance(phase.steady, bool), what, f"is steady: {phase.steady!r}")
    span = phase.span
    spans = span is None or (len(span) == 2 and _finite(span, SECONDS_MOST) and span[0] <= span[1])
    _require(spans, what, "has a span that is none")
    for window in (*phase.windows, *phase.warmup):
        steps, seconds = window.steps, window.seconds
        # The message is made only where there is one: a file holds hundreds of thousands of windows.
        if not (_count(steps) and steps):
            raise RecordError(f"{what} has {reprlib.repr(steps)} steps")
        if not (_finite([seconds], SECONDS_MOST) and seconds >= SECONDS_LEAST):
            raise RecordError(f"{what} took {reprlib.repr(seconds)} s")


def _count(value: object) -> bool:
    """Whether this is a whole number that something can be counted by."""
    return type(value) is int and 0 <= value <= COUNT_MOST


def _finite(values: Iterable[object], most: float = NUMBER_MOST) -> bool:
    """Whether all are numbers, and none larger than ``most``."""
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) and -most <= v <= most for v in values)


def _texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _writable(value: object, levels: int = LEVELS_MOST) -> bool:
    """Whether JSON can hold this: no number in it is infinite or none. Raises `RecordError` for too many levels."""
    if not levels:
        raise RecordError(f"something in it is nested more than {LEVELS_MOST} levels deep")
    if isinstance(value, dict):
        return all(_writable(each, levels - 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        # Of plain numbers, which most lists hold, the sum shows it at once.
        with contextlib.suppress(TypeError, OverflowError):
            if -NUMBER_MOST <= sum(value) <= NUMBER_MOST:
                return True
        return all(_writable(each, levels - 1) for each in value)
    return not isinstance(value, float) or -NUMBER_MOST <= value <= NUMBER_MOST


def _require(condition: bool, what: str, problem: str) -> None:
    if not condition:
        raise RecordError(f"{what} {problem}")
