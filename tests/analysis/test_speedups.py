"""What settings gain, and the words on it: nothing that was not tested, and no name twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics.speedups import Speedup, find_speedups
from suite.record.record import Record
from suite.report.text.changes import along, largest, training_time
from tests import records

#: Small differences from block to block.
NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015)


def steps(framework: str, step_s: float, n: int = 6, turn: int = 0, **changes: object) -> list[Record]:
    times = [step_s * (1 + NOISE[(block * (turn + 1) + turn) % 6]) for block in range(n)]
    return [records.timed(each, framework, block, **changes) for block, each in enumerate(times)]


def found(held: Sequence[Record], by: str = "framework") -> tuple[Group, list[Speedup]]:
    (one,) = group([Launch(each, "run-a", "file") for each in held], by)
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


def test_a_framework_is_named_once_however_many_settings_vary_besides() -> None:
    _, held = found(in_two_batches())
    (text,) = training_time("LSTM", [gain for gain in held if gain.axis == "precision"], keys(held))
    assert re.match(r"LSTM, batch (32|64), bf16 instead of fp32 \(6 seeds\): PyTorch 2.0x \(", text)
    assert text.count("PyTorch") == text.count("TensorFlow") == 1
    assert text.endswith("; where it is faster, the accuracy is the same")


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
    assert re.match(r"largest gain: LSTM, batch (32|64), bf16 instead of fp32 \(6 launches\): PyTorch 2.0x \(", text)
    _, held = found([*steps("jax", 1.0), *steps("jax", 0.5, turn=1, precision="bf16")], "precision")
    (text,) = along("LSTM", "precision", [gain for gain in held if gain.axis == "precision"])
    assert text.startswith("LSTM, bf16 instead of fp32 (6 launches): JAX 2.0x (")
    assert text.endswith(", faster)")
