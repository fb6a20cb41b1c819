"""The record of one launch: a versioned schema that is written once and read for years.

The types are the schema: `Record.from_json` accepts what `Record.to_json` wrote, in this version or an older one, and
refuses everything else with one line that names the field, including numbers that no measurement can give.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import Meta, to_builtins

from suite.catalog.phases import PHASES as CATALOG
from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL, REPEAT
from suite.plan.schema import SchemaError, decode, step_into
from suite.record.parts import history as limits
from suite.record.parts.bounds import explain, outside
from suite.record.parts.checkpoints import Checkpoints, find_fault
from suite.record.parts.evidence import Identity, Inference
from suite.record.parts.history import Count, Elapsed, Ledger, Ranks, Seconds, Some, TrainingHistory
from suite.record.parts.profile import Profile

# 1 had no span or metrics, 2 no course, 3 windows as objects, a span a phase and only a fingerprint, 4 no profile.
SCHEMA = 5

#: How a launch can end. `unsupported` and `out-of-memory` skip, `ok` passes, the others fail the test.
Status = Literal["ok", "unsupported", "out-of-memory", "timeout", "crashed", "diverged", "error"]
STATUSES = get_args(Status)
SKIPPED = ("unsupported", "out-of-memory")

#: Outcomes that mean that the batch did not fit: also a process that is killed, or aborts for want of memory.
DID_NOT_FIT = ("out-of-memory", "crashed", "timeout")

#: The phases of every cell; and of some, with several devices or where launches serve.
PHASES = tuple(name for name, each in CATALOG.items() if each.of_every_cell)
ALL_PHASES = tuple(CATALOG)

#: Objects and lists within one another, and characters of a reason that are kept, at most.
LEVELS_MOST, REASON_MOST = 50, 1000

#: Less than a call of a function takes in Python, and more bytes than any memory has.
STEP_LEAST_S, BYTES_MOST = 1e-8, 2**62

#: The fields that the parent of a worker fills in; those of a worker's messages are ignored.
PARENTS = ("schema", "cell", "launch", "started", "run", "metrics", "flags", "log")

#: The fields whose content has no schema: JSON of any kind, its numbers finite.
FREE = ("run", "workload", "settings", "environment", "metrics")

#: For the JSON Schema; `Record` looks into the tuple itself.
NAMED = Meta(extra_json_schema={"propertyNames": {"enum": list(ALL_PHASES)}})

Bytes = Annotated[int, Meta(ge=0, le=BYTES_MOST)]
Moment = Annotated[float, Meta(ge=-limits.SECONDS_MOST, le=limits.SECONDS_MOST)]


class RecordError(ValueError):
    """JSON that is no record; the message names the field and what is wrong with it."""


@dataclass(frozen=True)
class Outcome:
    """How the launch ended, and in one line why, if it did not end well."""

    status: Status
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Window(NamedTuple):
    """``steps`` steps between two device fences, and the seconds between them; in JSON an array of the two."""

    steps: Some
    seconds: Elapsed


@dataclass(frozen=True)
class Phase:
    """One measured phase: the windows that count, and the warm-up windows before them.

    ``spans`` are when those that count ran, in seconds since the worker was spawned: a begin and an end for each burst
    of them, since the phases take turns.
    """

    windows: Annotated[tuple[Window, ...], Meta(min_length=1)]
    warmup: tuple[Window, ...] = ()
    steady: bool = True
    spans: tuple[tuple[Moment, Moment], ...] = ()

    @cached_property
    def step_s(self) -> float:
        """Total time over total steps: the launch's value for this phase."""
        # Exact, as Python 3.12 rounds a plain sum otherwise than 3.11 does.
        return math.fsum(w.seconds for w in self.windows) / sum(w.steps for w in self.windows)

    @property
    def step_times_s(self) -> list[float]:
        """The mean step time of each window, in seconds: the samples behind the quartiles."""
        return [w.seconds / w.steps for w in self.windows]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Record:
    """What one launch found.

    ``launch`` counts the launches of a cell from 0, the control's from `CONTROL`, and adds `REPEAT` to the number of a
    disturbed one whose place it takes. ``run`` describes the run (id, seed, position in the order), ``data`` (name,
    kind, digest) and ``workload`` (parameters, FLOPs per sample, digest of the spec) what was trained, ``settings``
    what the framework said it used, ``startup`` the seconds of each part from spawn to ready, ``memory`` bytes by kind,
    ``environment`` machine, versions and its digest, ``metrics`` what `suite.monitor` saw, ``course`` the epochs of a
    cell that has a recipe, ``profile`` where the time of a step went, ``ranks`` how several devices worked together,
    ``ledger`` what was counted besides the windows, ``inference`` how the trained model answered, ``checkpoints`` what
    saves cost, by phase, ``log`` the last lines of the worker's own output when the launch failed.
    """

    cell: Cell
    outcome: Outcome
    launch: Count = 0
    started: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    identity: Identity | None = None
    startup: dict[str, Seconds] = field(default_factory=dict)
    compile_s: Seconds | None = None
    first_step_s: Seconds | None = None
    phases: Annotated[dict[str, Phase], NAMED] = field(default_factory=dict)
    course: TrainingHistory | None = None
    profile: Profile | None = None
    memory: dict[str, Bytes] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    ranks: Ranks | None = None
    ledger: Ledger | None = None
    inference: Inference | None = None
    checkpoints: dict[str, Checkpoints] | None = None

    @property
    def key(self) -> str:
        """Unique within a run: the cell's id and the launch."""
        return f"{self.cell.id}#{self.launch}"

    @property
    def control(self) -> bool:
        """Whether it is of the A/A control."""
        return self.launch % REPEAT >= CONTROL

    @property
    def is_repeat(self) -> bool:
        """Whether this launch takes the place of a disturbed one."""
        return self.launch >= REPEAT

    @property
    def block(self) -> int:
        """The block that it ran in."""
        return self.launch % CONTROL

    @property
    def host(self) -> str:
        """The host of a cluster that it ran on, by a name that tells hosts of a run apart; empty without a cluster."""
        return str(self.run.get("host", ""))

    @property
    def resumed(self) -> int:
        """How many times its run had been resumed before."""
        return times if isinstance(times := self.run.get("resumed", 0), int) else 0

    @property
    def effective_batch(self) -> int:
        """Samples per update: the cell's, or for a cell with batch `AUTO`, the largest that fits."""
        return self.cell.effective_batch or self.settings.get("effective_batch", 0)

    @property
    def samples_per_s(self) -> float | None:
        """Training throughput, or None where the launch did not get that far."""
        phase = self.phases.get("train")
        return self.effective_batch / phase.step_s if phase else None

    def to_json(self) -> dict[str, Any]:
        """The record as `json.dumps` takes it; NumPy numbers become plain ones."""
        values = {"schema": SCHEMA, **to_builtins(self, enc_hook=float)} | {"cell": self.cell.to_json()}
        later_ones = [(values, name) for name in ("ranks", "ledger", "inference", "checkpoints")]
        later_ones += [(values["identity"] or {}, name) for name in ("inference", "answered")]
        later_ones += [(values["ledger"] or {}, name) for name in ("late_s", "shapes")]
        for part, name in later_ones:  # without them, as before there were any
            if part.get(name, part) is None:
                del part[name]
        return values

    @classmethod
    def from_json(cls, data: Any) -> Record:
        """Raises `RecordError` if it is no record, has a newer schema or holds impossible numbers."""
        _require(isinstance(data, dict) and "schema" in data, "record has no schema; this is not the suite's")
        schema = data["schema"]
        _require(type(schema) is int and schema >= 1, f"schema is {reprlib.repr(schema)}")
        _require(schema <= SCHEMA, f"schema is {schema}, newer than the {SCHEMA} known here: update the suite")
        values = {name: value for name, value in data.items() if name != "schema"}
        if schema < 4 and isinstance(values.get("phases"), dict):
            values["phases"] = {name: _upgrade(name, phase) for name, phase in values["phases"].items()}
        try:
            record = decode(cls, values)
        except SchemaError as error:
            raise RecordError(str(error)) from None
        record._check()
        return record

    def _check(self) -> None:
        """Check the rules that concern several fields. Raises `RecordError`."""
        for name in FREE:
            place = _impossible(getattr(self, name))
            _require(place is None, f"{name}{place} is not finite, or beyond {limits.NUMBER_MOST:g}")
            problem = next(outside(getattr(self, name)), None)
            _require(problem is None, f"{name}{explain(problem)}" if problem else "")
        batch = self.effective_batch
        usable = type(batch) is int and (0 < batch <= limits.COUNT_MOST or not (batch or self.outcome.ok))
        _require(usable, f"settings say batch {reprlib.repr(batch)}")
        for name, phase in self.phases.items():
            _require(name in ALL_PHASES, f"phases has {reprlib.repr(name)}; there are: {', '.join(ALL_PHASES)}")
            moments = [moment for span in phase.spans for moment in span]
            _require(moments == sorted(moments), f"phases.{name}.spans are not one after the other")
            windows = (*phase.windows, *phase.warmup)
            quick = next((each for each in windows if each.seconds < STEP_LEAST_S * each.steps), None)
            _require(quick is None, f"phases.{name} has {quick}: no step takes less than {STEP_LEAST_S:g} s")
        if self.outcome.ok:
            _require("train" in self.phases, "phases lack train, though the outcome is ok")
            finished = not self.cell.recipe or bool(self.course and self.course.finished)
            _require(finished, "course is not whole, though the outcome is ok")
            _require({*(self.checkpoints or {})} <= {*self.phases}, "checkpoints has a phase that phases lack")
            _require(not (fault := find_fault(self.phases, self.checkpoints or {})), f"{fault}, and the outcome is ok")


def _upgrade(name: str, phase: Any) -> Any:
    """A phase of schema 1 to 3 in the form of schema 4; anything else is returned as it is."""
    if not isinstance(phase, dict):
        return phase
    phase = dict(phase)
    arrays: dict[str, Any] = {}
    if (span := phase.pop("span", None)) is not None:
        arrays["spans"] = [span]
    for part in ("windows", "warmup"):
        if isinstance(windows := phase.get(part), list):
            arrays[part] = [_array(f"phases{step_into(name)}.{part}", at, each) for at, each in enumerate(windows)]
    return phase | arrays


def _array(part: str, at: int, window: Any) -> list[Any]:
    if not isinstance(window, dict) or window.keys() != set(Window._fields):
        raise RecordError(f"{part}[{at}] is {reprlib.repr(window)}: expected an object of steps and seconds")
    return [window["steps"], window["seconds"]]


def _impossible(value: Any, levels: int = LEVELS_MOST) -> str | None:
    """The path of a number that no measurement gives, as ``.name[3]``; None if there is none.

    Raises `RecordError` for too many levels.
    """
    if not levels:
        raise RecordError(f"something in it is nested more than {LEVELS_MOST} levels deep")
    if isinstance(value, dict):
        if not _all_possible(value.values()):
            for name, each in value.items():
                if not isinstance(each, str) and (place := _impossible(each, levels - 1)) is not None:
                    return step_into(name) + place
    elif isinstance(value, (list, tuple)):
        if not _all_possible(value):
            for at, each in enumerate(value):
                if (place := _impossible(each, levels - 1)) is not None:
                    return f"[{at}]{place}"
    elif isinstance(value, (float, int)) and not -limits.NUMBER_MOST <= value <= limits.NUMBER_MOST:
        return ""
    return None


def _all_possible(values: Iterable[Any]) -> bool:
    """Whether the sum of plain numbers, which most lists hold, rules out impossible ones; False leaves it open."""
    try:
        return bool(-limits.NUMBER_MOST <= sum(values) <= limits.NUMBER_MOST)
    except (TypeError, OverflowError):
        return False


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise RecordError(problem)
