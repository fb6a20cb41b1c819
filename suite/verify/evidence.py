"""Rules on the evidence and the figures of each launch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from statistics import median
from typing import Any

from suite.analysis.identity.comparability import judge
from suite.analysis.records.accounts import LATE_S
from suite.analysis.records.ledger import UNACCOUNTED, find_unaccounted, problems
from suite.catalog.metrics import first_gpu, number, within
from suite.catalog.settings import SETTINGS
from suite.plan.cell import AUTO, Cell, Loader
from suite.record.disturbance import is_disturbed
from suite.record.record import Record
from suite.verify.known import EVIDENCE, FIRST_DAY
from suite.verify.rule import FAILED, MEASURE, WARNING, Problem, Submission

#: Windows lie within their bursts, whose times are rounded to microseconds.
ROUNDED_S = 2e-6
#: The time of bursts that lies in no window over that of the windows, in the middle launch of each cell and in any
#: launch, and by the clock of the parent the same, for whose messages a burst has some seconds more. Published, of nine
#: runs: 0.0025 and 0.0058; by the parent's clock, of five, 0.0035, and 0.0116 where 0.018 s were of one burst.
BETWEEN_MOST, BETWEEN_MOST_OF_ONE, MESSAGE_S = 0.005, 0.01, 0.01
#: The same in a launch whose windows ran while others took cores, or which is in no test.
BETWEEN_MOST_BUSY = 0.05
#: Windows that determine a launch: as many that agree to this many digits are no chance.
WINDOWS_LEAST, DIGITS = 3, 7
#: The same of losses, in their proportions, where they are apart by so much: those of a model that learns nothing are
#: alike in all seeds.
LOSS_DIGITS, LOSSES_APART = 6, 0.01


def copies(run: Submission) -> Iterator[Problem]:
    """No launch has figures or evidence of another, not even scaled."""
    seen: dict[tuple[object, ...], Record] = {}
    for record in run.ended:
        for name, key in _figures(record):
            if (other := seen.setdefault((name, *key), record)).key != record.key:
                yield Problem(FAILED, f"{name} of {record.key} are those of {other.key}", MEASURE)
        for name, losses in _losses(record):
            if (other := seen.setdefault((name, *losses), record)).run["seed"] != record.run["seed"]:
                yield Problem(FAILED, f"{name} of {record.key} are those of {other.key}, of another seed", MEASURE)


def _figures(record: Record) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Figures that two processes never share, in any order: times to the nanosecond, in their proportions."""
    for name, phase in record.phases.items():
        seconds = sorted(window.seconds for window in (*phase.warmup, *phase.windows))
        if len(seconds) >= WINDOWS_LEAST and len(set(seconds)) > 1:
            yield f"the windows of {name}", tuple(f"{each / seconds[0]:.{DIGITS}f}" for each in seconds)
    if len(record.startup) >= WINDOWS_LEAST:
        yield "the seconds of its start", tuple(sorted(record.startup.items()))
    if record.identity and len(record.identity.seconds) >= WINDOWS_LEAST:
        yield "the seconds of its evidence", tuple(sorted(record.identity.seconds.items()))


def _losses(record: Record) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Losses of a training to its end, which another seed never gives, several not even in their proportions."""
    epochs = record.course.epochs if record.course else ()
    curve = record.course.curve if record.course else ()
    series = {
        "the losses of its epochs": tuple(epoch.train_loss for epoch in epochs),
        "the losses after its epochs": tuple(epoch.test_loss for epoch in epochs),
        "the losses of its first steps": curve,
    }
    series |= {f"the losses of epoch {at}": (each.train_loss, each.test_loss) for at, each in enumerate(epochs, 1)}
    for name, losses in series.items():
        if len(losses) >= WINDOWS_LEAST and max(losses) > (1 + LOSSES_APART) * min(losses) > 0:
            yield name, tuple(round(each / losses[0], LOSS_DIGITS) for each in losses)
        elif len({*losses}) > 1:  # to the last digit
            yield name, losses


def check_plan(run: Submission) -> Iterator[Problem]:
    """A cell has the whole evidence in its first launch, and digests of the same program in all others."""
    for cell, records in run.cells.items():
        identities = [record.identity for record in records if record.identity]
        if len(identities) < len(records):
            yield Problem(FAILED, f"a launch of {cell.id} has no evidence of identity", MEASURE)
        elif any(each.initial for each in identities) and not any(map(_is_replayed, records)):
            yield Problem(FAILED, f"no launch of {cell.id} was replayed by a fresh model", MEASURE)
        elif not all(each.weights or each.initial for each in identities):
            yield Problem(FAILED, f"a launch of {cell.id} has no digest of its weights", MEASURE)
        elif len(programs := {identity.program for identity in identities}) > 1:
            yield Problem(FAILED, f"the launches of {cell.id} ran {len(programs)} programs", MEASURE)
    yield from _find_lacking(run)
    said = "as asked, which its settings as applied do not say"
    applied = ((record.key, _find_unapplied(record)) for record in run.ok)
    yield from (Problem(FAILED, f"{key} had no {asked} {said}", MEASURE) for key, asked in applied if asked)
    of_program: dict[str, Cell] = {}
    for record in run.ok:
        program = record.identity.program if record.identity else ""
        if program and (other := of_program.setdefault(program, record.cell)) != record.cell:
            yield Problem(FAILED, f"{record.key} has the program of {other.id}", MEASURE)
    if not of_program or not run.ok[0].ledger:
        yield Problem(WARNING, "it lacks evidence that this version takes", "measure again with this version")


def _find_lacking(run: Submission) -> Iterator[Problem]:
    """Evidence that the versions of a run's day took, and what a version took that took any other of it."""
    age = max((each.since for each in EVIDENCE if any(each.is_in(record) for record in run.ok)), default=FIRST_DAY)
    started = datetime.fromisoformat(run.run["started"])
    for each in (each for each in EVIDENCE if each.since <= max(age, started)):
        kind = WARNING if each.heavy or each.since > age else FAILED
        for cell, records in run.cells.items():
            there = [each.is_in(record) for record in records if each.have(record)]
            if there and not (all(there) if each.in_each else any(there)):
                yield Problem(kind, f"{cell.id} lacks {each.path}, which versions of its day have", MEASURE)


def _find_unapplied(record: Record) -> str:
    """The setting that was not applied as the cell asks; empty if all were. Rule `versions` judges the release."""
    applied = record.settings.get("applied")
    as_chosen = ("release", "compile") if record.cell.interface == "keras-fit" else ("release",)
    if applied is None:  # an older version's
        return ""
    for name, setting in SETTINGS.items():
        value = getattr(record.cell, name)
        asked = value.id if isinstance(value, Loader) else value
        is_free = name in as_chosen or setting.leaves_open(asked)
        if not is_free and setting.current(applied.get(name, setting.default)) != asked:
            return f"{setting.title} {asked}"
    return ""


def _is_replayed(record: Record) -> bool:
    last = record.identity.last if record.identity else None
    return bool(record.course) or (last is not None and last.replayed is not None)


def same(run: Submission) -> Iterator[Problem]:
    """All frameworks computed the same."""
    for each in run.groups:
        for (_, cell), verdict in judge(row for row in each.rows if row.ok).items():
            if verdict.kind == "alone":
                yield Problem(WARNING, f"{cell.id} has no other framework beside it", "measure all frameworks")
            elif verdict.kind not in ("same", UNACCOUNTED):
                yield Problem(FAILED, f"{cell.id} {verdict}", MEASURE)


def ledger(run: Submission) -> Iterator[Problem]:
    """Every step, batch and second is accounted for, and no rate is beyond the device's."""
    for record in run.ok:
        tries = record.settings.get("batch_search")
        is_found = isinstance(tries, list) and any(within(each, "status") == "ok" for each in tries)
        if record.cell.batch == AUTO and not is_found:
            yield Problem(FAILED, f"no search of {record.key} found its {record.effective_batch} samples", MEASURE)
        gpu = first_gpu(record)
        told = [number(gpu.get(f"energy_j_{name}")) for name in ("per_sample", "to_target")]
        powers = [within(gpu, "phases", "train", name, "median") for name in ("power_w", "power_from_energy_w")]
        if any(told) and not any(map(number, powers)):
            yield Problem(FAILED, f"{record.key} tells energy, and no power beside it", MEASURE)
    rows = {row.key: row.ok for each in run.groups for row in each.rows}
    for key, words in find_unaccounted(rows, submitted=True).items():
        found = [record for record in rows[key] if problems(record)] or rows[key]
        if all("contaminated" in record.flags for record in found):  # as a busy machine has it; the row is not ranked
            yield Problem(WARNING, f"{key[1].id} is not ranked: {words}", "measure on an idle machine")
        else:
            yield Problem(FAILED, f"{key[1].id}: {words}", MEASURE)


def clock(run: Submission) -> Iterator[Problem]:
    """Windows fill the bursts in which they were taken, by the clocks of both processes, in each launch and cell."""
    if run.timed and not run.timed[0].phases["train"].spans:
        yield Problem(WARNING, "its launches do not say when their windows ran", "measure again with this version")
        return
    yield from _find_unseen(run)
    of_cells: dict[tuple[Cell, str, str], list[tuple[float, float]]] = {}
    for record in run.timed:
        busy = "contaminated" in record.flags or is_disturbed(record)
        for name, phase in record.phases.items():
            seconds = math.fsum(window.seconds for window in phase.windows)
            burst_s = {"": math.fsum(end - begin for begin, end in phase.spans)}
            if record.ledger:
                burst_s[" by the parent's clock"] = math.fsum(record.ledger.seen_s.get(name, ()))
            for clock, passed_s in burst_s.items():
                left_s, late_s = passed_s - seconds, MESSAGE_S * len(phase.spans) if clock else 0.0
                waited_s = LATE_S * len(phase.spans) if clock and busy else 0.0  # as messages do beside others
                least, most = (left_s - late_s) / seconds, (left_s + max(late_s, waited_s)) / seconds
                of_cells.setdefault((record.cell, name, clock), []).append((least, most))
                of_one_s = BETWEEN_MOST_OF_ONE * seconds if clock and not busy else 0.0
                if left_s < -late_s - of_one_s - ROUNDED_S * len(phase.spans):
                    kind = WARNING if -left_s <= waited_s else FAILED
                    yield Problem(kind, f"the windows of {name} of {record.key} take {seconds:.6f} s, "
                                  f"{-left_s:.6f} s more than passed{clock}", MEASURE)  # fmt: skip
                elif left_s > BETWEEN_MOST_OF_ONE * seconds + late_s:
                    kind = WARNING if busy and left_s < BETWEEN_MOST_BUSY * seconds + late_s else FAILED
                    yield Problem(kind, f"{left_s / seconds:.1%} of the time of {name} of {record.key} lies between "
                                  f"windows{clock}", MEASURE)  # fmt: skip
    for (cell, name, clock), shares in of_cells.items():
        if clock and (middle := median(most for _, most in shares)) < 0:
            yield Problem(FAILED, f"windows of {name} of {cell.id} take {-middle:.1%} more than passed{clock}", MEASURE)
        if (middle := median(least for least, _ in shares)) > BETWEEN_MOST:
            yield Problem(FAILED, f"{middle:.1%} of the time of {name} of {cell.id} lies between windows{clock}, and "
                          f"{BETWEEN_MOST:.1%} is the most", MEASURE)  # fmt: skip


def _find_unseen(run: Submission) -> Iterator[Problem]:
    """The parent's clock saw of each launch what it saw of the others, and of a training to its end all of it."""
    counted = [(record, record.ledger.seen_s) for record in run.ok if record.ledger]
    every = {name for _, seen_s in counted for name in seen_s}
    every |= {"compile", "first_step"} if "startup" in every else set()
    for record, seen_s in counted:
        course, found = record.course, record.inference
        shown: dict[str, Any] = {"startup": record.startup, "compile": record.compile_s}
        shown["first_step"] = record.first_step_s
        if found:
            shown |= dict.fromkeys(("first_batch", "first_request", "requests"), found) | {"decode": found.decoded}
        if course and len(course.epochs) > max(course.resumed_at, default=0):
            shown |= dict.fromkeys(("epoch", "evaluated"), course.epochs)
            if not seen_s.get("train") or not record.phases["train"].spans:
                yield Problem(FAILED, f"{record.key} does not say when it trained by both clocks", MEASURE)
        if unseen := [name for name, figure in shown.items() if figure and name in every and not seen_s.get(name)]:
            yield Problem(FAILED, f"{record.key} has no {unseen[0]} by the parent's clock", MEASURE)
