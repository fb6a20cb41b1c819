"""Rules on what else the machine did: flags are what readings give, and these what their lines over time say."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from suite.catalog.metrics import number, within
from suite.record import disturbance
from suite.record.record import Record
from suite.record.saved import decode_line
from suite.verify.rule import FAILED, IDLE, MEASURE, WARNING, Problem, Submission

#: How far the share of the cores that others took may be from the mean of its lines over time, which have rounded and
#: thinned points, and from so many points on.
LINES_MOST, POINTS_LEAST = 0.2, 8
#: What rounding may add to a share.
ROUNDED = 0.01


def disturbances(run: Submission) -> Iterator[Problem]:
    """The flags of launches that others disturbed are what their readings give, which their lines support."""
    unflagged = []
    for record in run.ok:
        disturbed, read, why = disturbance.is_disturbed(record), disturbance.has_readings(record), ""
        stored = within(record.metrics, "host", "disturbance") or {}
        taken = sum(stored.get(name, 0.0) for name in ("others_share", "steal_share"))
        if record.settings["device"] == "cpu" and (odd := sorted(disturbance.GPU_FLAGS.keys() & {*record.flags})):
            why = f"trained on no GPU, and is flagged as {odd[0]}"
        elif disturbed and disturbance.DISTURBED not in record.flags and read:
            why = f"is not flagged, and its readings say: {disturbance.find_disturbances(record)[0]}"
        elif disturbance.DISTURBED in record.flags and not disturbed:
            why = "is flagged as disturbed, and none of its readings says so"
        elif taken > disturbance.OTHERS_MOST + ROUNDED and "contaminated" not in record.flags:
            why = f"is not flagged as contaminated, and others took {taken:.0%} of the cores"
        elif read and (line := _shares_by_line(record)):
            for rule in (disturbance.TAKES, *((name,) for name in disturbance.STALLS)):
                names = [name for name in rule if name in line]
                said, seen = (min(1.0, sum(of.get(name, 0.0) for name in names)) for of in (stored, line))
                if abs(said - seen) > LINES_MOST:
                    why = f"says {said:.0%} of {' and '.join(names)}, and its lines over time say {seen:.0%}"
        if why:
            yield Problem(FAILED, f"{record.key} {why}", MEASURE)
        elif "contaminated" not in record.flags and _median_share(record) > disturbance.OTHERS_MOST:
            unflagged.append(record)
    if unflagged:
        most = max(map(_median_share, unflagged))
        why = f"others took up to {most:.0%} of the cores in {len(unflagged)} launches that are not flagged for it"
        yield Problem(WARNING, why, IDLE)


def _median_share(record: Record) -> float:
    """The share of the cores that others took in the middle of a phase, that of the phase in which it was largest."""
    figures = (within(record.metrics, "host", "phases", name) for name in record.phases)
    taken = (
        sum(number(within(each, name, "median")) or 0.0 for name in ("other_cpu_cores", "steal_cores"))
        for each in figures
    )
    return max(taken, default=0.0) / float(record.metrics["host"]["cores"])


def _shares_by_line(record: Record) -> dict[str, float]:
    """What a record's lines over time say of the shares that it holds while it trained; empty for too few points."""
    host, spans = record.metrics["host"], record.phases["train"].spans
    timeline, cores = decode_line(host.get("timeline")), number(host.get("cores"))
    if not timeline or not cores or not spans:
        return {}
    begin_s, end_s = spans[0][0], spans[-1][1]
    at = [index for index, at_s in enumerate(timeline["at_s"]) if begin_s <= at_s <= end_s]
    shares = {}
    for name in (
        name
        for name in (*disturbance.TAKES, *disturbance.STALLS)
        if name != "throttled_share" or name in host["disturbance"]
    ):
        of_cores = f"{'other_cpu' if name == 'others_share' else name.removesuffix('_share')}_cores"
        line = timeline["values"].get(of_cores if name in disturbance.TAKES else name)
        if line and len(at) >= POINTS_LEAST:
            mean = max(0.0, fmean(line[index] or 0.0 for index in at))
            shares[name] = mean / cores if name in disturbance.TAKES else mean
    return shares
