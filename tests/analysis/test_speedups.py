"""What settings gain, and the words on it: nothing that was not tested, and no name twice."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.rows.groups import Group
from suite.analysis.statistics.changes import Speedup, Step, find_speedups, release_lines
from suite.record.record import Record
from suite.report.screen.short import short
from suite.report.text.changes import axis_sentence, largest, training_time
from tests import records
from tests.shown import grouped

#: Small differences from block to block.
NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015)


def steps(framework: str, step_s: float, n: int = 6, turn: int = 0, **changes: object) -> list[Record]:
    times = [step_s * (1 + NOISE[(block * (turn + 1) + turn) % 6]) for block in range(n)]
    return [records.timed(each, framework, block, **changes) for block, each in enumerate(times)]


def found(held: Sequence[Record], by: str = "framework") -> tuple[Group, list[Speedup]]:
    one = grouped(held, by)
    return one, find_speedups(one, verdicts({row.key: row.ok for row in one.rows}))


def in_two_batches(speed: float = 2.0, **other: float) -> list[Record]:
    """PyTorch and TensorFlow in fp32 and bf16 at two batch sizes; ``other`` are TensorFlow's speeds in bf16."""
    return [
        each
        for batch in (32, 64)
        for name, gained in (("pytorch", speed), ("tensorflow", other.get("tensorflow", speed)))
        for precision, factor in (("fp32", 1.0), ("bf16", gained))
        for each in steps(name, batch / 32 / factor, turn=int(precision == "bf16"), batch=batch, precision=precision)
    ]


def keys(held: Sequence[Speedup]) -> list[object]:
    return [gain.row.key for gain in held]


def test_the_same_accuracy_is_said_only_of_precisions_against_fp32() -> None:
    _, held = found([*steps("pytorch", 1.0), *steps("pytorch", 1.0, turn=1, batch=64)])
    assert training_time("LSTM", held, keys(held))[0].endswith("; the accuracies were not compared")
    _, held = found([*steps("pytorch", 1.0), *steps("pytorch", 0.5, turn=1, precision="bf16")])
    assert training_time("LSTM", held, keys(held))[0].endswith("; where it is faster, the accuracy is the same")
    assert training_time("LSTM", held, [])[0].endswith("; the accuracy was not shown to be the same")


def test_equal_is_a_decision_and_undecided_is_none() -> None:
    _, held = found(in_two_batches(tensorflow=1.0))
    (text,) = largest([("LSTM", gain) for gain in held if gain.axis == "precision"])
    assert re.search(r", TensorFlow 1.00x \(.*, equally fast\)$", text)
    assert "not decided" not in text


def test_the_largest_gain_is_one_that_was_measured_in_settings_that_are_named() -> None:
    _, held = found(in_two_batches())
    (text,) = largest([("LSTM", gain) for gain in held if gain.axis == "precision"])
    assert re.match(
        r"largest gain: LSTM, batch (32|64), throughput with bf16 instead of fp32 \(6 launches\): PyTorch 2.0x \(", text
    )
    _, held = found([*steps("jax", 1.0), *steps("jax", 0.5, turn=1, precision="bf16")], "precision")
    _, (text,) = axis_sentence("LSTM", "precision", [gain for gain in held if gain.axis == "precision"])
    assert text.startswith("LSTM, throughput with bf16 instead of fp32 (6 launches): JAX 2.0x (")
    assert text.endswith(", faster)")


SPEEDS = {"0.9.2": 1.0, "0.10.2": 1.0, "0.12.0": 1.5, "": 1.5}
INSTALLED: dict[str, Any] = {"packages": {"jax": "0.11.0"}, "python": "3.13.1", "machine": records.MACHINE}


def measured(speeds: dict[str, float], n: int = 6, framework: str = "jax") -> list[Record]:
    """Launches of each release, whose steps take so many times as long."""
    held = []
    for block in range(n):
        for release, slower in speeds.items():
            step_s = 0.01 * slower * random.Random(f"{release} {block}").gauss(1, 0.003)
            environment = INSTALLED | ({"packages": {framework: release}} if release else {})
            held.append(records.timed(step_s, framework, block, release=release, environment=environment))
    return held


def line_of(held: list[Record]) -> tuple[Step, ...]:
    of = grouped(held, "release")
    (line,) = release_lines(of, verdicts({row.key: row.ok for row in of.rows}))
    return line


def test_each_release_is_tested_against_the_one_before_and_against_the_oldest() -> None:
    line = line_of(measured(SPEEDS))
    assert [step.release for step in line] == ["0.9.2", "0.10.2", "0.11.0", "0.12.0"], "installed where it belongs"
    assert line[0].to_before is line[0].to_oldest is None
    to_before = [step.to_before.verdict for step in line[1:] if step.to_before]
    assert to_before == ["equal", "slower", "equal"]
    assert [step.to_oldest.verdict for step in line[1:] if step.to_oldest] == ["equal", "slower", "slower"]
    assert line[3].to_oldest is not None
    assert line[3].to_oldest.value == pytest.approx(1 / 1.5, rel=0.01)


def test_all_tests_of_a_line_are_corrected_together() -> None:
    line = line_of(measured({"0.8.0": 1.0, "0.9.2": 1.0, "0.10.2": 1.02}))
    tested = [ratio for step in line[1:] for ratio in (step.to_before, step.to_oldest) if ratio]
    raw = sorted({ratio.raw for ratio in tested if ratio.raw is not None})
    assert len(raw) == 3
    assert min(ratio.p for ratio in tested if ratio.p is not None) == pytest.approx(3 * raw[0])


def test_releases_of_one_framework_are_proved_to_compute_the_same() -> None:
    held = measured({"0.9.2": 1.0, "0.10.2": 1.0})
    found = verdicts({row.key: row.ok for row in grouped(held, "release").rows})
    assert {each.kind for each in found.values()} == {"same"}
    off = held[1].identity
    assert off
    wrong = replace(off, losses=tuple(1.1 * loss for loss in off.losses))
    broken = [replace(each, identity=wrong) if each.cell.release == "0.10.2" else each for each in held]
    assert {each.kind for each in verdicts({r.key: r.ok for r in grouped(broken, "release").rows}).values()} == {
        "differs"
    }


def test_beside_other_frameworks_the_releases_of_one_do_not_outvote_them() -> None:
    """Five releases that are wrong alike, and two frameworks that agree: the releases differ."""
    held = [each for name in ("pytorch", "tensorflow") for each in measured({"": 1.0}, framework=name)]
    wrong = measured({f"0.9.{n}": 1.0 for n in range(5)})
    held += [
        replace(each, identity=replace(each.identity, losses=tuple(1.2 * loss for loss in each.identity.losses)))
        for each in wrong
        if each.identity
    ]
    found = verdicts({row.key: row.ok for row in grouped(held, "release").rows})
    assert {cell.framework for (_, cell), each in found.items() if each.kind == "differs"} == {"jax"}


def test_a_framework_enters_a_contest_with_its_fastest_release() -> None:
    held = measured({"0.9.2": 1.0, "0.10.2": 1.5}) + measured({"": 1.2}, framework="pytorch")
    text = short(held, "run-a", 200)
    assert "JAX 0.9.2 is fastest" in text
