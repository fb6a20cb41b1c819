"""What holds a reader's own script back beside its loader, from what was seen of its process, and what to try next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated

from msgspec import Meta

from suite.analysis.rows.groups import Row
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.scaling import phase_ratios
from suite.catalog.metrics import number, within
from suite.catalog.phases import TRAIN
from suite.plan.schema import SchemaError, decode
from suite.record.record import Record
from suite.record.text import clean

#: A share of a step and bytes per second from which a cause is named.
SHARE_LEAST, GROWS_LEAST = 0.10, 2**20
#: A share of some 30 looks that says that something was seen at all: enough in one launch of more than two.
SEEN_LEAST = 0.01
#: How a rank's time is told that is longer than the others', from how many times as long, in how many launches or more.
RANKS = {"own": ("beside its backward pass", 1.3, 1), "busy": ("in which it does not wait", 1.15, 3)}
#: A share of loading whose interval lies above this holds the steps back, be the loader too slow or not ahead of them.
LOADING_LEAST = 0.05
LOADING = "loading holds it back ({}); whether the loader alone is as fast as the steps is not decided: try workers"
#: Looks may see so many times less of it than there is.
LOOKS = 2.0
#: A cause that ends a training at last comes before all that only slow it.
FIRST = 1.0

#: What to try by the kind of limit, in the terms of a script.
ADVICE = {
    "input-bound": "its loader cannot deliver as fast as the steps take: give it workers (where an argument chooses "
    "them, --vary num-workers=0,2,4), or do less for each sample",
    "poor overlap": "loader and steps are fast enough alone and wait for each other: load ahead (workers, prefetching, "
    "pinned memory)",
    "compute-bound": "loading costs next to nothing; the steps are the limit: --try all, then compiling, a narrower "
    "precision, a larger batch",
    "undecided": "more launches tell (--launches 8)",
}
NO_WORKERS, UNPINNED = "its DataLoader has no workers: num_workers=0", "its batches are not pinned: pin_memory=True"

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]


@dataclass(frozen=True)
class Watched:
    """What a launch's ``settings["watched"]`` holds: shares of a step, and seconds of one in each rank."""

    waits: Share = 0.0
    loads: Share = 0.0  # in its loader, while nothing else went on
    lines: dict[str, Share] = field(default_factory=dict)
    grows_bytes_per_s: float = 0.0
    grows_at_last: float = float("inf")  # in the second half of the windows; older records do not tell
    ranks_own_s: tuple[Seconds, ...] = ()  # beside its backward pass, in which it waits for the others
    ranks_busy_s: tuple[Seconds, ...] = ()  # in which it does not wait
    threads: int = 0
    workers: int = -1  # of a DataLoader; -1 where none was seen
    pinned: bool | None = None  # whether it pins its batches


def read(record: Record) -> Watched | None:
    """What was seen of a launch; None where nothing was, or what is stored is something else."""
    try:
        return decode(Watched, record.settings.get("watched"))
    except SchemaError:
        return None


def find_loading(row: Row, loading: Estimate | None) -> float:
    """The share of a step by which loading decidedly holds the steps back; 0 where that is not decided.

    It is decided by steps without loading, or by looks which saw the steps wait for the loader in each launch.
    """
    if loading and (loading.low or 0.0) > LOADING_LEAST:
        return loading.value or 0.0
    if loading and loading.high is not None and loading.high <= LOADING_LEAST:
        return 0.0
    return _share([each.loads for each in _seen(row)])


def most_of_loading(row: Row) -> float:
    """The share of a step that loading can cost at most: by what its loader takes alone, on all cores, and by looks.

    Steps that were slower than those without loading by more were so for another reason, as beside other programs. It
    is 1 where nothing tells.
    """
    seen, alone, cores = _seen(row), phase_ratios(row, "input", "train"), _cores(row)
    if not (seen and alone and cores) or row.ok[0].settings.get("device") != "cpu":
        return 1.0
    return min(1.0, max(cores * max(alone), LOOKS * max(each.loads for each in seen)))


def advise(row: Row, kind: str, loading: Estimate | None) -> list[str]:
    """What to try against a limit of this kind, with this share of loading."""
    share, advice = find_loading(row, loading), ADVICE.get(kind, "")
    if share and kind == "undecided":
        advice = LOADING.format(f"{share:.0%} of a step")
    none, unpinned = ({getattr(each, name) for each in _seen(row)} == {0} for name in ("workers", "pinned"))
    settings = row.ok[0].settings if row.ok else {}
    can_pin = settings.get("device") == "cuda" and settings.get("backend") == "torch"
    own = [NO_WORKERS] * none + [UNPINNED] * (unpinned and can_pin) if share else []
    return [*filter(None, [advice]), *own]


def find_causes(row: Row) -> list[tuple[float, str]]:
    """What was seen beside the loading, in every launch, that holds the steps back; with its share, most first."""
    seen = _seen(row)
    if not seen:
        return []
    return sorted((*_on_one_processor(row, seen), *_of_ranks(row, seen), *_growing(seen)), reverse=True)


def _cores(row: Row) -> float:
    return number(within(row.ok[0].metrics, "host", "cores")) or 0.0


def _seen(row: Row) -> list[Watched]:
    return [found for record in row.ok if (found := read(record))]


def _share(shares: Sequence[float]) -> float:
    """The share of a step that a cause takes; 0 where it is not enough, or not in every launch."""
    middle = median(shares) if shares else 0.0
    least = SEEN_LEAST if len(shares) > 2 else SHARE_LEAST / 2
    return middle if middle > SHARE_LEAST and min(shares) > least else 0.0


def _on_one_processor(row: Row, seen: Sequence[Watched]) -> Iterator[tuple[float, str]]:
    on_cpu, ranks = row.ok[0].settings.get("device") == "cpu", len(seen[0].ranks_own_s)
    if on_cpu and not ranks and (waits := _share([each.waits for each in seen])):
        words = f"it waits for {waits:.0%} of a step with nothing to compute: for files, a network, locks, processes"
        yield waits, words
    if lines := _share([sum(each.lines.values()) for each in seen]):
        most = sum((Counter(each.lines) for each in seen), Counter[str]()).most_common(1)
        yield lines, f"your own code takes {lines:.0%} of a step, most of it at {clean(most[0][0], 80)}"
    per_core = max(1.0, number(within(row.ok[0].environment, "machine", "threads_per_core")) or 1.0)
    cores, threads = _cores(row) // per_core, seen[0].threads * (ranks or 1)
    if on_cpu and 0 < threads <= cores / 2:
        words = f"PyTorch computes on {threads} of {cores:g} cores: OMP_NUM_THREADS={int(cores // (ranks or 1)) or 1}"
        yield 1 - threads / cores, f"{words}, no set_num_threads()"


def _growing(seen: Sequence[Watched]) -> Iterator[tuple[float, str]]:
    grows, at_last = min(each.grows_bytes_per_s for each in seen), median(each.grows_at_last for each in seen)
    if grows > GROWS_LEAST < at_last:
        words = f"memory grows by {grows / 2**20:.3g} MiB/s or more"
        yield FIRST, f"{words}: something of each step is kept (graphs, lists)"


def _of_ranks(row: Row, seen: Sequence[Watched]) -> Iterator[tuple[float, str]]:
    """Yields the rank that is the slowest in all launches, if it is by a share of a step."""
    step_s = median(each.phases[TRAIN].step_s for each in row.ok)
    for kind, (words, times, least) in RANKS.items():
        launches = [getattr(each, f"ranks_{kind}_s") for each in seen]
        slowest = {_slowest(each, times) for each in launches}
        if len(seen) < least or len(slowest) != 1 or (rank := slowest.pop()) is None:
            continue
        own_s = median(each[rank] for each in launches)
        others_s = median(time for each in launches for at, time in enumerate(each) if at != rank)
        if (share := (own_s - others_s) / step_s) > SHARE_LEAST:
            told = f"{1e3 * own_s:.3g} ms of a step {words}, {1e3 * others_s:.3g} in the others"
            yield min(share, FIRST), f"rank {rank} is slow: {told}, which wait for it"
            return


def _slowest(seconds: Sequence[float], times: float) -> int | None:
    """The rank with the longest time, if it is so many times as long as the next."""
    first, second = [*sorted(seconds, reverse=True), 0.0, 0.0][:2]
    return [*seconds].index(first) if first > times * second > 0 else None
