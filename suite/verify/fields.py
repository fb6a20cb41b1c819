"""The fields that rules need where neither a record nor the description of its run has a schema, and their types.

A rule names its fields, and is judged only where they are there and of their types. So whoever leaves one out, or
writes text for a number, switches no rule off: the rule refuses the bundle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta, ValidationError, convert

from suite.plan.measuring import CONTROL

#: Who has a field: the description of the run, all launches, those that ended well, and those with all phases.
RUN, EVERY, OK, WHOLE = "run", "every", "ok", "whole"
#: Whether all of them have it: they do; older versions wrote none, so that all have it or none; or not.
ALWAYS, ALL_OR_NONE, MAYBE = "always", "all or none", "maybe"

Text = Annotated[str, Meta(min_length=1, max_length=300)]
Some = Annotated[int, Meta(ge=1, le=10**12)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e21)]
Share = Annotated[float, Meta(ge=0, le=1)]
Moment = Annotated[datetime, Meta(tz=True)]
Asked = Annotated[int, Meta(ge=1, lt=CONTROL)]
Sequential = Literal["sequential"]


class Windows(TypedDict):
    min_window_s: Positive
    windows: Some
    max_warmup_s: Seconds


class Load(TypedDict):
    busy_cores: Seconds
    cores: Some
    steal_cores: NotRequired[Seconds]


class Hardware(TypedDict):
    cpu: Text
    cores: Some
    memory_bytes: Positive
    gpus: list[Text]


class Readings(TypedDict, total=False):
    others_share: Share
    steal_share: Share
    throttled_share: Share
    io_full_share: Share
    memory_full_share: Share


#: What was typed, of which rules read these.
Typed = TypedDict("Typed", {"k": str, "no-control": bool | str, "budget": str | float}, total=False)


@dataclass(frozen=True)
class Field:
    """``of`` is who has it, ``kind`` its type for msgspec."""

    of: str
    kind: Any
    there: str = ALWAYS


#: Of the description of a run, by name.
OF_RUN = {
    "id": Field(RUN, Text),
    "started": Field(RUN, Moment),
    "seed": Field(RUN, int),
    "plan": Field(RUN, Windows),
    "cells": Field(RUN, Text),
    "launches": Field(RUN, Asked),
    "planned": Field(RUN, Some),
    "typed": Field(RUN, Typed),
    "design": Field(RUN, Sequential, MAYBE),
    "budget_s": Field(RUN, Positive, MAYBE),
    "repeats": Field(RUN, bool, MAYBE),
    "background": Field(RUN, Load, MAYBE),
}
#: Of launches, by their path in a record.
OF_LAUNCHES = {
    "started": Field(EVERY, Moment),
    "run.id": Field(EVERY, Text),
    "run.suite": Field(EVERY, Text),
    "run.seed": Field(EVERY, int),
    "run.plan": Field(EVERY, Windows),
    "run.position": Field(EVERY, Annotated[int, Meta(ge=0, le=10**9)]),
    "run.took_s": Field(EVERY, Seconds),
    "run.before": Field(EVERY, Text, ALL_OR_NONE),
    "run.launches": Field(EVERY, Asked, ALL_OR_NONE),
    "run.design": Field(EVERY, Sequential, ALL_OR_NONE),
    "run.repeats": Field(EVERY, bool, MAYBE),
    "run.resumed": Field(EVERY, Some, MAYBE),
    "run.host": Field(EVERY, Text, MAYBE),
    "run.warming_s": Field(EVERY, Seconds, MAYBE),
    "run.searching_s": Field(EVERY, Seconds, MAYBE),
    "data.kind": Field(OK, Text),
    "data.name": Field(OK, Text),
    "data.digest": Field(OK, Text),
    "workload.digest": Field(OK, Text),
    "workload.parameters": Field(OK, Some),
    "workload.flops_per_sample": Field(OK, Positive),
    "workload.training_flops_per_sample": Field(OK, Positive, ALL_OR_NONE),
    "identity.program": Field(OK, Text, ALL_OR_NONE),
    "ledger": Field(OK, Any, ALL_OR_NONE),
    "phases.train.spans": Field(OK, Any, ALL_OR_NONE),
    "environment.packages": Field(OK, Annotated[dict[str, Text], Meta(min_length=1)]),
    "environment.digest": Field(OK, Text),
    "environment.machine": Field(OK, Hardware),
    "metrics.host.cores": Field(OK, Positive),
    "metrics.host.disturbance": Field(OK, Readings, ALL_OR_NONE),
    "settings.device": Field(OK, Text),
    "settings.applied": Field(OK, dict[str, Any], ALL_OR_NONE),
    "settings.peak_flops_per_s": Field(WHOLE, Positive),
}


def find_fault(path: str, field: Field, holders: Sequence[tuple[str, Any]]) -> str:
    """What is wrong with a field in any of its holders, which have names, in words; empty if nothing is."""
    values = [(name, look_up(holder, path)) for name, holder in holders]
    there = [(name, value) for name, value in values if value is not None]
    if len(there) < len(values) and (field.there == ALWAYS or (field.there == ALL_OR_NONE and there)):
        return f"{next(name for name, value in values if value is None)} lacks {path}"
    for name, value in there:
        try:
            convert(value, field.kind)
        except ValidationError as error:
            return f"{path} of {name} is not what it has to be: {error}"
    return ""


def look_up(holder: Any, path: str) -> Any:
    """The value at a path through mappings and attributes; None if there is none, or an empty text or tuple."""
    for name in path.split("."):
        holder = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return None if holder in ("", ()) else holder
