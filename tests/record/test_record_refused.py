"""What no launch can have written is refused in one line that names the field."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from suite.catalog.phases import PHASES
from suite.record.record import SCHEMA, Record, RecordError
from tests import records

HUGE = 10**400


def changed(path: str, value: Any) -> dict[str, Any]:
    """A good record's JSON with the value at a dotted path replaced."""
    data: dict[str, Any] = copy.deepcopy(json.loads(json.dumps(records.proved(records.record()).to_json())))
    *way, last = path.split(".")
    at: Any = data
    for step in way:
        at = at[int(step) if isinstance(at, list) else step]
    at[int(last) if isinstance(at, list) else last] = value
    return data


@pytest.mark.parametrize(
    "spans",
    [
        None, 5, "ab", [5.0, 6.0], [[5.0]], [[5.0, 6.0, 7.0]], [["a", "b"]], [[6.0, 5.0]], [[5.0, 7.0], [6.0, 8.0]],
        [[0.0, HUGE]], [[math.nan, 1.0]], [[True, 2.0]],
    ],
)  # fmt: skip
def test_bursts_that_no_clock_can_have_told_are_refused(spans: Any) -> None:
    data = changed("phases.train.spans", spans)
    with pytest.raises(RecordError):
        Record.from_json(data)


@pytest.mark.parametrize("data", [None, 5, [], "record", {}, {"cell": {}, "outcome": {}}])
def test_what_has_no_schema_is_not_ours(data: Any) -> None:
    with pytest.raises(RecordError, match="has no schema; this is not the suite's"):
        Record.from_json(data)


def test_a_newer_schema_asks_for_a_newer_suite() -> None:
    with pytest.raises(RecordError, match=f"schema is {SCHEMA + 1}, newer than the {SCHEMA} known here: update"):
        Record.from_json(changed("schema", SCHEMA + 1))


@pytest.mark.parametrize("schema", [0, -1, 1.0, "1", None, True, [1]])
def test_a_schema_is_a_number_from_one_on(schema: Any) -> None:
    with pytest.raises(RecordError, match="schema is"):
        Record.from_json(changed("schema", schema))


@pytest.mark.parametrize("missing", ["cell", "outcome"])
def test_a_record_without_cell_or_outcome_is_refused(missing: str) -> None:
    data = records.record().to_json()
    del data[missing]
    with pytest.raises(RecordError, match=f"^record: object missing required field {missing}$"):
        Record.from_json(data)


def test_a_good_launch_has_trained() -> None:
    with pytest.raises(RecordError, match="phases lack train, though the outcome is ok"):
        Record.from_json(changed("phases", {}))


@pytest.mark.parametrize(
    "path",
    [
        "phases.train.windows.0.1",
        "phases.input.warmup.0.1",
        "compile_s",
        "first_step_s",
        "startup.import_s",
        "memory.rss_peak_bytes",
        "identity.losses.0",
        "identity.updates.dense/kernel",
        "identity.early_updates.dense/kernel",
        "identity.own.losses.1",
        "identity.float64.updates.dense/kernel",
        "identity.own_optimizer",
        "identity.last.batch",
        "identity.last.updates.conv1/bias",
        "identity.dropout.spread",
        "identity.dropout.losses.1",
        "identity.optimizer",
        "identity.seconds.own",
    ],
)
def test_a_number_that_no_measurement_gives_is_refused_in_one_line(path: str) -> None:
    for value in (math.nan, math.inf, -math.inf, HUGE, "1", True, [1.0], {}):
        with pytest.raises(RecordError) as caught:
            Record.from_json(changed(path, value))
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, None])
def test_a_window_takes_time(seconds: Any) -> None:
    with pytest.raises(RecordError, match=r"^phases\.train\.windows\[3\]\.seconds is .*: expected a number"):
        Record.from_json(changed("phases.train.windows.3.1", seconds))


@pytest.mark.parametrize("steps", [0, -1, 1.0, "20", True, None])
def test_a_window_holds_whole_steps(steps: Any) -> None:
    with pytest.raises(RecordError, match=r"^phases\.train\.windows\[0\]\.steps is .*: expected a whole number"):
        Record.from_json(changed("phases.train.windows.0.0", steps))


@pytest.mark.parametrize("path", ["compile_s", "first_step_s", "startup.import_s"])
def test_a_time_to_start_is_not_negative(path: str) -> None:
    with pytest.raises(RecordError, match=f"^{path} is -0.1: expected a number >= 0.0$"):
        Record.from_json(changed(path, -0.1))


@pytest.mark.parametrize("phase", ["startup", "evaluate"])
def test_phases_are_the_three_there_are(phase: str) -> None:
    with pytest.raises(RecordError, match=f"^phases has '{phase}'; there are: {', '.join(PHASES)}$"):
        Record.from_json(changed(f"phases.{phase}", records.record().to_json()["phases"]["train"]))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cell", 5),
        ("cell.batch", 0),
        ("outcome", "ok"),
        ("outcome", {}),
        ("outcome.status", "fine"),
        ("outcome.status", ["ok"]),
        ("outcome.reason", 5),
        ("launch", -1),
        ("launch", 1.0),
        ("launch", True),
        ("started", 5),
        ("run", []),
        ("data", None),
        ("data.digest", 5),
        ("workload", "spec"),
        ("settings", 5),
        ("settings.threads", math.nan),
        ("environment.machine", {"memory_bytes": math.inf}),
        ("startup", [0.1]),
        ("memory", [1]),
        ("environment", "here"),
        ("phases", []),
        ("phases", None),
        ("phases.train", []),
        ("phases.train.windows", []),
        ("phases.train.windows", 5),
        ("phases.train.windows", {"steps": 1, "seconds": 1.0}),
        ("phases.train.windows.0", {"steps": 1, "seconds": 1.0}),
        ("phases.train.windows.0", [1]),
        ("phases.train.windows.0", [1, 1.0, "s"]),
        ("phases.train.steady", "yes"),
        ("identity", []),
        ("identity.weights", 5),
        ("identity.batches", None),
        ("identity.losses", 5),
        ("identity.losses", "1234"),
        ("identity.updates", [0.1]),
        ("identity.updates", None),
        ("identity.early_updates", [0.1]),
        ("identity.own", []),
        ("identity.own.losses", "12"),
        ("identity.own.updates", None),
        ("identity.float64.speed", 1.0),
        ("identity.timed", "fast"),
        ("identity.last.batch", -1),
        ("identity.last.batch", 1.5),
        ("identity.last.equal", "yes"),
        ("identity.dropout.losses", 4.6),
        ("identity.seconds", 1.0),
        ("identity.seconds.own", -1.0),
        ("identity.proof", {}),
        ("flags", "unsteady"),
        ("flags", [1]),
        ("flags", 5),
        ("log", "line"),
        ("log", [None]),
        ("log", None),
        ("verdict", "fast"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_one_line(path: str, value: Any) -> None:
    with pytest.raises(RecordError) as caught:
        Record.from_json(changed(path, value))
    assert len(str(caught.value).splitlines()) == 1


def test_a_failed_launch_too_holds_only_numbers_that_can_be_written() -> None:
    data = changed("identity.losses.9", math.nan) | {"outcome": {"status": "diverged", "reason": ""}, "phases": {}}
    with pytest.raises(RecordError, match="identity"):
        Record.from_json(data)


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("field", "levels"), [("run", 60), ("workload", 300), ("settings", 900), ("environment", 990), ("metrics", 60)]
)
def test_what_is_nested_too_deeply_is_refused_in_one_line(field: str, levels: int) -> None:
    """What passes must also be written, compared and copied, which takes several calls a level."""
    data = records.record().to_json() | {field: {"x": deep(levels)}}
    with pytest.raises(RecordError, match="nested more than 50 levels deep"):
        Record.from_json(data)


@pytest.mark.parametrize("seconds", [5e-324, 1e-320, 1e-10, 1e10, 1e308, 1.7e308])
def test_times_that_no_launch_can_take_are_refused(seconds: float) -> None:
    """Their sums, ratios and axes are not finite."""
    data = records.record().to_json()
    data["phases"]["train"]["windows"] = [[1, seconds]]
    with pytest.raises(RecordError, match=r"^phases\.train\.windows\[0\]\.seconds is .*: expected a number"):
        Record.from_json(data)
    if seconds > 1:
        for field in ("first_step_s", "compile_s"):
            with pytest.raises(RecordError, match=f"^{field} is .*: expected a number <= 1000000000.0"):
                Record.from_json(records.record().to_json() | {field: seconds})


@pytest.mark.parametrize(("field", "value"), [("launch", 10**30), ("launch", -1), ("launch", 1.0)])
def test_counts_that_count_nothing_are_refused(field: str, value: Any) -> None:
    with pytest.raises(RecordError, match=field):
        Record.from_json(records.record().to_json() | {field: value})


@pytest.mark.parametrize(
    ("field", "number"),
    [("run", math.nan), ("workload", -math.inf), ("settings", 2e100), ("environment", HUGE), ("metrics", math.nan)],
)
def test_a_number_in_an_object_without_a_schema_is_finite_and_is_named(field: str, number: float) -> None:
    for free, path in (
        ({"x": number}, ".x"),
        ({"a": 1, "x y": {"z": [[1, None], [0.5, number]]}}, r"\['x y'\]\.z\[1\]\[1\]"),
        ({"values": ["a", {"n": number}]}, r"\.values\[1\]\.n"),
    ):
        with pytest.raises(RecordError, match=f"^{field}{path} is not finite, or beyond 1e\\+100$"):
            Record.from_json(records.record().to_json() | {field: free})
