"""Made profiles: figures by category, with no profiler behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from suite.record.parts.profile import Gaps, Operation, Profile, Share
from suite.record.record import Record

#: Shares of a step of the CNN, in the order of `CATEGORIES`; XLA's weight gradients take half of it.
CNN = {
    "pytorch": {
        "convolution forward": 0.30, "convolution input gradient": 0.28, "convolution weight gradient": 0.26,
        "matrix product": 0.04, "element-wise": 0.04, "reduction and pooling": 0.03, "optimizer": 0.02,
        "host and launch overhead": 0.02, "other": 0.01,
    },
    "tensorflow": {
        "convolution forward": 0.32, "convolution input gradient": 0.27, "convolution weight gradient": 0.26,
        "matrix product": 0.04, "element-wise": 0.05, "random numbers and dropout": 0.02, "input pipeline": 0.02,
        "copy and layout change": 0.02,
    },
    "jax": {
        "convolution forward": 0.22, "convolution input gradient": 0.20, "convolution weight gradient": 0.50,
        "matrix product": 0.03, "element-wise": 0.03, "idle": 0.02,
    },
}  # fmt: skip

#: Bytes that every category moves in one millisecond.
BYTES_PER_MS = 8_000_000
PEAKS = {"peak_flops_per_s": 5e12, "peak_bytes_per_s": 2e10}


def profile(seconds: Mapping[str, float], timed_s: float | None = None, **changes: object) -> Profile:
    """A profile with these seconds per step by category; each category has ten calls and one operation."""
    moved = {name: None if name == "idle" else int(1e3 * time * BYTES_PER_MS) for name, time in seconds.items()}
    categories = {name: Share(time, 10.0, moved[name]) for name, time in seconds.items()}
    total = sum(seconds.values())
    made = Profile(
        steps=5, step_s=1.1 * total, timed_s=timed_s or total, categories=categories, threads=2,
        operations=tuple(
            Operation(f"op of {name}", name, time, 10.0, bytes=moved[name])
            for name, time in sorted(seconds.items(), key=lambda each: -each[1])
            if name != "idle"
        ),
        trace="cell-launch0.trace.json.gz",
    )  # fmt: skip
    return replace(made, **changes)


def profiled(record: Record, shares: Mapping[str, float] | None = None) -> Record:
    """The same launch with a profile of its training step, and with both peaks and the FLOPs that a roofline needs."""
    if "train" not in record.phases:
        return record
    step_s = record.phases["train"].step_s
    shares = shares or CNN[record.cell.framework]
    flops = {"convolution": 950_000_000, "matrix product": 50_000_000}
    workload = record.workload | {"flops_by_kind": flops, "training_flops_per_sample": 3 * 10**9}
    made = profile({name: share * step_s for name, share in shares.items()}, step_s)
    return replace(record, profile=made, workload=workload, settings=record.settings | PEAKS)


def all_profiled(records: Iterable[Record]) -> list[Record]:
    return [profiled(each) for each in records]


def with_gaps(record: Record, idle: float) -> Record:
    """The same launch as if its device had had nothing to do for this share of its steps."""
    assert record.profile
    as_timed = {"step_s": record.profile.timed_s, "gaps": Gaps(idle, 2e-5)}
    return replace(record, profile=replace(record.profile, **as_timed))
