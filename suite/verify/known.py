"""What a machine of a kind can do, and what was trained: facts that a bundle is held against."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from suite.plan.cell import Cell
from suite.record.record import Record
from suite.verify.fields import look_up
from workloads.spec import WORKLOADS, specification

#: SHA-256 of the data sets as the suite stores them, made of the official archives.
DATA = {
    "cifar100": "2a692ece3508eaa2f7a14b37424b7241b020cb402ecb757430ab3caeb920987c",
    "imdb": "7ba2c6aa9394f3ba8f952f0f22f68aa0f589a76f7265604e5848c9f0e71069c8",
}

#: Dense peak rates of a GPU in TFLOP/s, without sparsity: fp32 outside of tensor cores, then tf32, bf16 and fp16.
#: The first pattern that a name has decides. From NVIDIA's data sheets of H200, H100, A100, L40S, L4, A10, T4 and V100.
GPUS: Mapping[str, Mapping[str, float]] = {
    r"H200|GH200|H100.*(SXM|HBM3)": {"fp32": 67, "tf32": 494, "bf16": 989, "fp16": 989},
    r"H100.*NVL": {"fp32": 60, "tf32": 418, "bf16": 835, "fp16": 835},
    r"H100": {"fp32": 51, "tf32": 378, "bf16": 756, "fp16": 756},
    r"A100": {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    r"L40S": {"fp32": 91.6, "tf32": 183, "bf16": 362, "fp16": 362},
    r"\bL4\b": {"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121},
    r"\bA10\b": {"fp32": 31.2, "tf32": 62.5, "bf16": 125, "fp16": 125},
    r"\bT4\b": {"fp32": 8.1, "fp16": 65},
    r"V100": {"fp32": 15.7, "fp16": 125},
}  # fmt: skip

#: FLOP of one core in a cycle, at most: two fused multiply-adds of 512 bits, and in short types a matrix unit; and
#: cycles in a second, at most.
CORE_FLOPS = {"fp64": 32, "fp32": 64, "tf32": 64, "bf16": 2048, "fp16": 2048}
CORE_HZ = 6e9


def gpu_peak(name: str, precision: str) -> float | None:
    """The peak of a GPU with this name in FLOP/s; None if it is not known."""
    found = next((rates for pattern, rates in GPUS.items() if re.search(pattern, name)), {})
    return 1e12 * found[precision] if precision in found else None


def core_peak(cores: int, precision: str) -> float | None:
    """More than so many cores of any processor can do, in FLOP/s."""
    return cores * CORE_HZ * CORE_FLOPS[precision] if precision in CORE_FLOPS else None


class Evidence(NamedTuple):
    """Where a record has some evidence, since when versions take it, and which launches ``have`` it.

    All launches of a cell have what is ``in_each``. The rest is in the first of them; if it is ``heavy``, memory may
    have lacked for it.
    """

    path: str
    since: datetime
    in_each: bool = False
    heavy: bool = False
    have: Callable[[Record], bool] = lambda _: True

    def is_in(self, record: Record) -> bool:
        return look_up(record, self.path) not in (None, {})


def _day(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}+00:00")


#: No version of the suite is older.
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
#: All evidence that versions of the suite take.
EVIDENCE = (
    Evidence("identity.losses", FIRST_DAY),
    Evidence("identity.updates", FIRST_DAY),
    Evidence("identity.weights", FIRST_DAY),
    Evidence("identity.batches", FIRST_DAY, in_each=True),
    Evidence("identity.own", _day("22T01:21"), heavy=True),
    Evidence("identity.float64", _day("22T01:21"), heavy=True),
    Evidence("identity.optimizer", _day("22T01:21"), heavy=True),
    Evidence("identity.dropout", _day("22T01:21"), heavy=True, have=lambda record: draws(record.cell)),
    Evidence("identity.last", _day("22T01:21"), in_each=True, have=lambda record: not record.cell.recipe),
    Evidence("identity.evaluation", _day("22T01:51"), heavy=True, have=lambda record: bool(record.cell.recipe)),
    Evidence("identity.recomputed", _day("22T11:25"), heavy=True, have=lambda each: each.cell.checkpointing == "on"),
    Evidence("identity.program", _day("24T04:05"), in_each=True),
    Evidence("identity.own_optimizer", _day("24T04:05"), heavy=True),
    Evidence("ledger", _day("24T05:02"), in_each=True),
    Evidence("identity.scored", _day("24T10:21"), heavy=True, have=lambda record: bool(record.cell.recipe)),
    Evidence("identity.inference", _day("25T01:00"), heavy=True, have=lambda record: bool(record.inference)),
    Evidence("identity.answered", _day("25T01:00"), in_each=True, have=lambda record: bool(record.inference)),
    Evidence("identity.initial", _day("26T18:55"), in_each=True),
    Evidence("metrics.host.disturbance", _day("27T06:41"), in_each=True),
    Evidence("run.launches", _day("27T11:20"), in_each=True),
    Evidence("ledger.seen_s.startup", _day("27T11:41"), in_each=True),
    Evidence("settings.applied", _day("27T12:36"), in_each=True),
)


def draws(cell: Cell) -> bool:
    """Whether what a cell times draws dropout masks, as far as it is known here."""
    known = cell.workload in WORKLOADS and not cell.recipe
    return known and bool(getattr(specification(cell.workload, cell.size), "dropout", ()))
