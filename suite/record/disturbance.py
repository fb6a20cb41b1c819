"""Says whether a launch was disturbed, by readings that do not depend on its own speed.

All that is judged is in the record, so that a checker comes to the same answer. The bounds are fixed before a run.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from suite.catalog.metrics import number, within
from suite.record.once import once
from suite.record.record import Record
from suite.record.text import clean

#: The flag of a launch that was disturbed, and of one during which another process used a GPU that trained.
DISTURBED, SHARED_GPU = "disturbed", "gpu-shared"
#: The flag of a launch beside other work, which counts all the same.
CONTAMINATED = "contaminated"

#: Above this share of the cores in any phase, taken by other processes and by the host, a launch is `contaminated`:
#: a remark, and no more. A tenth is what one process on ten cores takes.
OTHERS_MOST = 0.10
#: Above this share of the cores, from the first to the last train window, a launch is disturbed. Half of one of two
#: cores, as ordinary machines have it in the background, is below: that much is left to the interval.
TAKEN_MOST = 0.30
#: Above this share of that time in which no task ran, since all waited for I/O or for memory, a launch is disturbed.
STALLED_MOST = 0.10

#: Flags by which a launch is disturbed, in words.
GPU_FLAGS = {
    "throttled": "the GPU throttled",
    "clock-drift": "the GPU's clock drifted",
    SHARED_GPU: "another process used the GPU",
}
#: What takes cores, and what stalls all tasks, by their names in ``metrics.host.disturbance``.
TAKES = {
    "others_share": "other processes took {} of the cores",
    "steal_share": "the host stole {}",
    "throttled_share": "the cgroup's quota throttled {}",
}
STALLS = {"io_full_share": "stalled on I/O {} of the time", "memory_full_share": "stalled on memory {} of the time"}

#: What a run recorded of the load before its first launch, in ``background``.
BEFORE = ("busy_cores", "steal_cores", "cores")

#: The names of other processes that a record holds, at most, and the characters of each.
NAMES_MOST, NAME_MOST = 3, 20


def is_disturbed(record: Record) -> bool:
    """Whether something outside of the launch took so much that its speed says little."""
    return bool(find_disturbances(record))


def busy_before(run: Any) -> float:
    """The cores that others kept busy when a run of this description began; 0 if they were few, or not recorded."""
    busy, stolen, cores = (number(within(run, "background", each)) or 0.0 for each in BEFORE)
    return busy + stolen if busy + stolen > OTHERS_MOST * cores else 0.0


def find_late_s(record: Record, name: str) -> list[float]:
    """Seconds that the parent waited for a core before it read of this, each time; 0 in a launch not disturbed."""
    if not record.ledger:
        return []
    seen_s, late_s = (each.get(name, ()) for each in (record.ledger.seen_s, record.ledger.late_s or {}))
    return [late if is_disturbed(record) else 0.0 for _, late in zip_longest(seen_s, late_s, fillvalue=0.0)]


def has_readings(record: Record) -> bool:
    """Whether the record holds what `find_disturbances` judges by; older ones have the background load alone."""
    return isinstance(within(record.metrics, "host", "disturbance"), dict)


@once
def find_disturbances(record: Record) -> tuple[str, ...]:
    """What disturbed the launch, in short words with numbers, the largest first; empty if nothing did.

    Numbers are those from the first to the last train window. Of a record without readings of its own it is the
    median of the background load there, if the launch is flagged as contaminated.
    """
    stored = within(record.metrics, "host", "disturbance")
    readings: dict[str, Any] = stored if isinstance(stored, dict) else _read_older(record)
    taken = {name: share for name in TAKES if (share := number(readings.get(name)) or 0.0) > 0}
    causes: list[str] = []
    if sum(taken.values()) > TAKEN_MOST:
        largest = max(taken, key=lambda name: taken[name])
        for name in sorted(taken, key=lambda name: -taken[name]):
            if name == largest or taken[name] > OTHERS_MOST:
                causes.append(TAKES[name].format(_percent(taken[name])))
                causes[-1] += name_processes(readings.get("processes")) if name == "others_share" else ""
    stalled = {name: number(readings.get(name)) or 0.0 for name in STALLS}
    causes += [STALLS[name].format(_percent(share)) for name, share in stalled.items() if share > STALLED_MOST]
    # At its power limit a GPU moves its clock by the launch's own load.
    own = ("clock-drift",) if "power-capped" in record.flags else ()
    return (*causes, *(words for flag, words in GPU_FLAGS.items() if flag in record.flags and flag not in own))


def name_processes(names: Any) -> str:
    """The names in brackets, such as `` (python3, dd)``; empty without any."""
    given = names[:NAMES_MOST] if isinstance(names, (list, tuple)) else ()
    cleaned = [clean(name, NAME_MOST) for name in given if isinstance(name, str)]
    return f" ({', '.join(cleaned)})" if cleaned else ""


def _read_older(record: Record) -> dict[str, Any]:
    busy = number(within(record.metrics, "host", "phases", "train", "other_cpu_cores", "median"))
    cores = number(within(record.metrics, "host", "cores"))
    if CONTAMINATED not in record.flags or busy is None or not cores:
        return {}
    return {"others_share": busy / cores}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
