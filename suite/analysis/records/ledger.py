"""Is every figure of a launch accounted for? Judges those of a record by one another.

Every figure that is shown has a check against something that was counted or read in another way; `CHECKS` lists them.
What a record lacks, since an older version wrote it, is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple, TypeVar

from suite.analysis.records import accounts, steps
from suite.analysis.records.accounts import LATE, LATE_S, Bound
from suite.analysis.records.machines import Machines
from suite.analysis.records.steps import LATE_BUSY_S, positive
from suite.record.disturbance import CONTAMINATED, is_disturbed
from suite.record.once import once
from suite.record.record import Record

Key = TypeVar("Key")
Device = tuple[str, str, int]  # machine, precision, and number of devices

#: A launch with a problem is flagged so, and its row is not ranked.
UNACCOUNTED = "unaccounted"


class Check(NamedTuple):
    """What is judged and against which bound, as docs/lab/ledger.md lists it, and the function that finds faults.

    It is of launches that ``trained`` to their end, of those that did not, or of all (None). One without ``find`` is
    made by the function of the check before it, or takes all launches of a row.
    """

    what: str
    bound: str
    find: Callable[[Record], Iterator[str]] | None = None
    trained: bool | None = None


def _within(what: str, bound: str, bounds: Callable[[Record], Iterator[Bound]]) -> Check:
    return Check(what, bound, partial(_find_outside, bounds))


def _find_outside(bounds: Callable[[Record], Iterator[Bound]], record: Record) -> Iterator[str]:
    return (words for each in bounds(record) if (words := each.problem)) if "train" in record.phases else iter(())


CHECKS = (
    Check("windows are as many as planned, of equally many steps", "exactly", steps.check_windows, trained=False),
    Check(
        "the median window against the planned least",
        f"{steps.WINDOW_LEAST} at least, {steps.WINDOW_BUSY} beside other programs; or {steps.FREED} of the last "
        "warm-up window, if that was long enough",
    ),
    Check(
        "windows against the time in which they were taken", " to ".join(map(str, steps.FILL)), steps.check_bursts,
        trained=False,
    ),
    Check(
        "the same against the clock of the parent process",
        f"{100 * LATE:g} % and {LATE_S:g} s a burst; in a disturbed launch {LATE_BUSY_S:g} s, and what the parent "
        "waited for a core, by the kernel",
    ),
    Check(
        "batches that the loader delivered, and the optimizer's own count, against steps",
        "exactly; in fp16 less those that overflow", steps.check_counts, trained=False,
    ),
    Check(
        "words, padding and operations of batches of several lengths against each other and the workload's length",
        f"as many at most; {steps.TILED} of the square of the length at least", steps.check_lengths, trained=False,
    ),
    Check(
        "fastest window of `compute` (of `input`, if the loader has no queue) against the slowest of `train`",
        f"{steps.CEILING_MOST} at most, in one launch of a cell; {steps.CEILING_OF_ONE} where one alone has these "
        f"phases, {steps.CEILING_BUSY} beside other programs",
    ),
    Check(
        "fastest window of `train` against the slowest of `compute` and `input` together",
        f"{steps.SERIAL_MOST} at most, likewise; {steps.SERIAL_BUSY:g} beside other programs",
    ),
    Check(
        "floating-point operations per second against the highest measured peak",
        f"{steps.PEAK_MOST} at most; {steps.PEAK_OF_FEW:g} where fewer than three launches measured it undisturbed, "
        f"{steps.PEAK_BUSY:g} where none did",
    ),
    Check("a measured peak against the usual one of its device", "{:g} to {:g} times".format(*steps.PEAK_OF_USUAL)),
    Check(
        "a profiled step against the fastest and the slowest timed one", " to ".join(f"{x:g}" for x in steps.PROFILED),
        steps.check_profile, trained=False,
    ),
    _within(
        "the categories of a profile, and its timed step, against the steps",
        " to ".join(map(str, accounts.SUMMED)) + ", and 1 %", accounts.profile,
    ),
    Check(
        "the seconds of all epochs against the time that passed, and against the parent's clock",
        f"{steps.FILL[0]} less {steps.SAVING_S:g} s an epoch, to {steps.FILL[1]}", steps.check_course, trained=True,
    ),
    _within(
        "windows of a training to its end against its epochs; its first mean loss against those of the steps",
        "exactly", accounts.history,
    ),
    Check("a test loss against the share of wrong answers", "ln 2 for each at least"),
    Check("a test accuracy against answers that a fresh model gives again", "5 standard errors"),
    _within(
        "startup, compiling, the first step, each epoch and evaluation, first and all requests against the parent's "
        "clock",
        f"{100 * LATE:g} % and {accounts.ONCE_S:g} s, likewise", accounts.clocks,
    ),
    _within(
        "startup, first step and warm-up against the begin of the windows; compiling against the first step; all that "
        "was timed against the launch's duration", f"1 % and {LATE_S:g} s", accounts.moments,
    ),
    _within("peaks of memory against what machine and GPU have, and two bytes a weight", "between", accounts.memory),
    Check("the peak of a process against what the monitor saw of it", " to ".join(f"{x:g}" for x in accounts.SEEN)),
    _within(
        "medians of the monitor against their percentiles; cores against their counters, and power against the energy",
        f"within; {accounts.COUNTED:g} times and {accounts.COUNTED_CORES} cores at most; "
        + " to ".join(f"{x:g}" for x in accounts.POWER), accounts.readings,
    ),
    _within("all requests against their percentiles, and decoding against the parent's clock", "2", accounts.serving),
    _within(
        "saves against the parent's clock, and the bytes of a checkpoint against the number of weights",
        f"1 to {steps.BYTES_OF_WEIGHT} bytes a weight, and {steps.BYTES_BESIDES / 2**20:g} MiB", steps.saving,
    ),
    _within("figures of several ranks against each other and against the windows", "1 %", accounts.devices),
    _within("samples of a step against those of the cell, or of its search", "exactly", accounts.work),
    Check("operations of training against those of a forward pass", "1 to 10"),
    Check("bytes that a forward pass keeps against those without checkpointing", "as many at most"),
)  # fmt: skip


def problems(record: Record) -> list[str]:
    """What cannot be accounted for in a launch that ended well, in words; none if everything can by itself."""
    return [*problems_besides_rates(record), *steps.check_rate(record)] if record.outcome.ok else []


@once
def problems_besides_rates(record: Record) -> list[str]:
    """The same but for its rates, which other launches judge: its own peak may have been measured beside others."""
    checks = (check for check in CHECKS if check.trained in (None, record.course is not None))
    return [words for check in checks if check.find for words in check.find(record)] if record.outcome.ok else []


def find_unaccounted(rows: Mapping[Key, Sequence[Record]], *, submitted: bool = False) -> dict[Key, str]:
    """The first problem of each row that has one, and how many of its launches have any.

    A launch that is ``submitted`` by others has its own peak, where few measured one: flags and other launches, which
    they may have written as they like, excuse none.
    """
    every = [record for records in rows.values() for record in records]
    machines = Machines((_run(record), record) for record in every)
    devices = {id(record): _device(record, machines) for record in every}
    rates = _rates((devices[id(record)], record) for record in every)
    usual = {device: (max(each), median(each)) for device, each in rates.items()}
    highest = {} if submitted else _find_highest((devices[id(record)], record) for record in every)
    found: dict[Key, str] = {}
    for key, records in rows.items():
        named = []
        for record in records:
            most, middle = usual.get(devices[id(record)], (None, None))
            few = highest.get((devices[id(record)], *_threads(record)), (None, steps.PEAK_OF_FEW))
            peak, limit = (most, steps.PEAK_MOST) if most else few
            words = (
                [*problems_besides_rates(record), *steps.check_rate(record, peak, limit)] if record.outcome.ok else []
            )
            named += [*words, *_find_odd(record, middle)][:1]
        named += [] if named else steps.check_order(records)
        if named:
            several = f" ({len(named)} of {len(records)} launches)" if len(records) > 1 else ""
            found[key] = f"{named[0]}{several}"
    return found


def _run(record: Record) -> str:
    return str(record.run.get("id", ""))


def _device(record: Record, machines: Machines) -> Device:
    return machines.name(_run(record), record), record.cell.precision, record.cell.devices


def _rates(records: Iterator[tuple[Device, Record]]) -> dict[Device, list[float]]:
    measured: dict[Device, list[float]] = {}
    for device, record in records:
        rate = positive(record.settings.get("peak_flops_per_s"))
        if rate is not None and CONTAMINATED not in record.flags:
            measured.setdefault(device, []).append(rate)
    return {device: rates for device, rates in measured.items() if len(rates) >= steps.PEAKS_LEAST}


def _find_highest(records: Iterator[tuple[Device, Record]]) -> dict[object, tuple[float, float]]:
    """The highest rate that any launch measured with the same threads, as others only lower it, and how far it bears.

    That is farther where each that measured one was beside other programs.
    """
    measured: dict[object, list[tuple[float, bool]]] = {}
    for device, record in records:
        if rate := positive(record.settings.get("peak_flops_per_s")):
            busy = CONTAMINATED in record.flags or is_disturbed(record)
            measured.setdefault((device, *_threads(record)), []).append((rate, busy))
    return {
        key: (max(rate for rate, _ in each), steps.PEAK_BUSY if all(busy for _, busy in each) else steps.PEAK_OF_FEW)
        for key, each in measured.items()
    }


def _threads(record: Record) -> tuple[object, ...]:
    return record.cell.threads, record.cell.cores, record.cell.bind


def _find_odd(record: Record, usual: float | None) -> list[str]:
    own = positive(record.settings.get("peak_flops_per_s"))
    if not usual or not own:
        return []
    share, (least, most) = own / usual, steps.PEAK_OF_USUAL
    if share > most or (share < least and CONTAMINATED not in record.flags):
        return [f"its peak is {share:.2g} times the usual one"]
    return []
