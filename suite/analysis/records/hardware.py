"""The machine that a record was measured on, in words."""

from __future__ import annotations

from collections import Counter

from suite.record.record import Record
from suite.record.text import clean


def machine(record: Record) -> str:
    """``AMD EPYC 7R13, 2 cores; NVIDIA H100`` from ``record.environment["machine"]``."""
    return "; ".join(part for part in (processor(record), gpus(record)) if part)


def processor(record: Record) -> str:
    """``AMD EPYC 7R13, 2 cores``; empty where the record does not say."""
    hardware = record.environment.get("machine")
    if not isinstance(hardware, dict):
        return ""
    return f"{clean(hardware.get('cpu', 'unknown processor'), 60)}, {clean(hardware.get('cores', '?'), 10)} cores"


def gpus(record: Record) -> str:
    """``2 x NVIDIA H100``, or with several models ``NVIDIA H100; NVIDIA A100``; empty without any."""
    hardware = record.environment.get("machine")
    names = hardware.get("gpus") if isinstance(hardware, dict) else None
    counts = Counter(clean(gpu, 60) for gpu in names) if isinstance(names, list) else Counter[str]()
    return "; ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())
