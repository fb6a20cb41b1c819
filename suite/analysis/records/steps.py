"""Is every step, batch and second of a launch accounted for? Judges the counts and times of a record by one another.

`suite.analysis.records.ledger` lists these checks. The bounds come from the launches that the project published, 893
that ended well; beside each stands the outermost figure of those, and of how many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from suite.analysis.records.accounts import LATE, LATE_S, ROUNDED, Bound, by_parent
from suite.catalog.metrics import shapes_of, training_flops
from suite.catalog.phases import PHASES
from suite.record.disturbance import CONTAMINATED, find_late_s, is_disturbed
from suite.record.parts.history import Ledger
from suite.record.record import Phase, Record
from workloads.spec import WORKLOADS, specification

#: Windows fill their bursts: their sum over that of the spans, but for `LATE_S`. Published: 0.993 to 1.000 (812
#: launches); 0.93 where bursts are of some milliseconds and other programs keep all cores busy.
FILL = (0.95, 1.01)
#: Seconds by which the parent reads a burst's messages late in a disturbed launch, which is in no test. It was 0.23
#: where others left a tenth of two cores, and the launch began a burst at the lowest priority. It may be more where the
#: kernel counted that the parent waited for a core.
LATE_BUSY_S = 0.5
#: The median window over the least that was planned. Published: 0.62 at least (696 launches).
WINDOW_LEAST = 0.5
#: The same beside other programs, which may slow down the windows by whose length the steps were chosen.
WINDOW_BUSY = 0.2
#: The same over the last window of the warm-up, if that was as long as planned, as it was beside other programs.
FREED = 0.1
#: The fastest window of a ceiling over the slowest one of training, which cannot be faster than its steps alone, nor
#: than its loader without a queue. Published: 1.005 at most (824 launches), and 0.22 for the loader (362).
CEILING_MOST = 1.05
#: The same where one launch alone has these phases, as other work may have disturbed one of them. It was 1.14 in the
#: main command on a slow machine of two cores, where nothing else ran.
CEILING_OF_ONE = 1.5
#: The same of a launch beside other programs. It was 1.60 beside half of a core in bursts, on two.
CEILING_BUSY = 2.5
#: The fastest training window over the slowest of its steps and of its loader, one after the other: more than both it
#: does not do. Published: 1.064 at most (824 launches) with freed memory kept, and 1.93 in PyTorch as it is installed,
#: whose loader and steps wait for each other when they ask the system for memory (run 0026).
SERIAL_MOST = 2.5
#: The same of a launch beside other programs, which may have ended after its training.
SERIAL_BUSY = 10.0
#: The highest share of the peak, where so many launches measured one; published: 0.952 in the runs, and 1.037 where any
#: three launches in a row have to do (739 of them).
PEAK_MOST, PEAKS_LEAST = 1.05, 3
#: The same where fewer did, as one may be disturbed while it measures. Published: 1.80 (801 launches).
PEAK_OF_FEW = 2.0
#: The same where all that did were beside other programs. It was 2.04, where another launch measured 3 times as much.
PEAK_BUSY = 6.0
#: A launch's own peak over the usual one of its device, at least and at most. Published: 0.21 and 1.91 (821 launches).
PEAK_OF_USUAL = (0.05, 3.0)
#: A profiled step over the fastest window's, at least, and over the slowest window's, at most. Published: 0.91 and 1.67
#: (141 launches), and 3.12 where ten steps take 15 ms, for whose beginning `LATE_S` is allowed.
PROFILED = (0.5, 3.0)
#: Writing a checkpoint after an epoch, at most. Published: 0.004 of the time (51 launches).
SAVING_S = 1.0
#: In fp16, steps that overflow are no updates: at most sixteen until the scale of 2**16 is 1, and one each time that it
#: grows, after 2,000 steps.
OVERFLOWS, GROWTH_STEPS = 16, 2000
#: A length of 500 words is 512 positions, and one of 496 no more.
TILED = 0.9


def check_windows(record: Record) -> Iterator[str]:
    if record.cell.is_of_script:  # whose windows end with the first step after a time
        return
    plan = record.run.get("plan")
    planned = plan.get("windows") if isinstance(plan, dict) else None
    least_s = positive(plan.get("min_window_s")) if isinstance(plan, dict) else None
    for name, phase in record.phases.items():
        if type(planned) is int and len(phase.windows) != planned:
            yield f"{name} has {len(phase.windows)} windows, and {planned} were planned"
        steps = {window.steps for window in (*phase.windows, *phase.warmup[-1:])}
        if len(steps) > 1:
            yield f"{name} has windows of {min(steps)} and of {max(steps)} steps"
        chosen_s = phase.warmup[-1].seconds if phase.warmup else 0.0  # other programs may have ended after that
        share = WINDOW_BUSY if CONTAMINATED in record.flags else WINDOW_LEAST
        if least_s and is_short(phase, share * least_s) and (chosen_s < least_s or is_short(phase, FREED * chosen_s)):
            middle_s = median(window.seconds for window in phase.windows)
            yield f"windows of {name} last {middle_s:.3g} s, and {least_s:g} s were planned"


def is_short(phase: Phase, seconds: float) -> bool:
    """Whether the median window took less."""
    return median(window.seconds for window in phase.windows) < seconds


def check_bursts(record: Record) -> Iterator[str]:
    """Windows fill their bursts, and these last as long by the parent's clock."""
    for name, phase in record.phases.items():
        if phase.spans:
            passed_s, late_s = sum(end - begin for begin, end in phase.spans), len(phase.spans) * LATE_S
            share = _seconds(phase) / passed_s
            if share > FILL[1] or _seconds(phase) < FILL[0] * passed_s - late_s:
                yield f"windows of {name} fill {share:.0%} of the time in which they were taken"
        seen_s = record.ledger.seen_s.get(name, ()) if record.ledger else ()
        late_s = len(seen_s) * (LATE_BUSY_S if is_disturbed(record) else LATE_S) + sum(find_late_s(record, name))
        outside_s = sum(seen_s)
        if seen_s and not (1 - LATE) * outside_s - late_s <= _seconds(phase) <= FILL[1] * outside_s + late_s:
            yield f"windows of {name} take {_seconds(phase):.3g} s, and {outside_s:.3g} s passed outside"


def check_counts(record: Record) -> Iterator[str]:
    """As many batches as steps that needed one, and as many updates as steps that made one."""
    ledger, phases = record.ledger, record.phases
    if "train" not in phases:
        return
    if ledger is None:  # as older records, of which some know at least how many batches there were
        last = record.identity.last if record.identity else None
        steps = sum(_steps(phase) for name, phase in phases.items() if PHASES[name].loads)
        if last and last.batch < steps:
            yield f"the loader had delivered {last.batch} batches, and steps took {steps}"
        return
    taken = {name: _steps(phase) + ledger.untimed.get(name, 0) for name, phase in phases.items()}
    if ledger.delivered != (batches := sum(steps for name, steps in taken.items() if PHASES[name].loads)):
        yield f"the loader delivered {ledger.delivered} batches, and steps took {batches}"
    training = [steps for name, steps in taken.items() if name in ("train", "compute") or PHASES[name].saves]
    yield from _updates(record, ledger, sum(training))


def _updates(record: Record, ledger: Ledger, steps: int) -> Iterator[str]:
    if ledger.updates is None:
        return
    skipped = OVERFLOWS + steps // GROWTH_STEPS if record.cell.precision == "fp16" else 0
    if not steps - skipped <= ledger.updates <= steps:
        yield f"the optimizer counted {ledger.updates} steps, and {steps} were taken"


def check_order(records: Sequence[Record]) -> list[str]:
    """What is wrong with launches whose phases are in another order than they can be in, if all are so.

    Other work disturbs one phase of a launch and not the next; what the code does shows in every launch.
    """
    several = [record for record in records if record.outcome.ok and record.phases.keys() & {"compute", "input"}]
    ceiling = CEILING_MOST if len(several) > 1 else CEILING_OF_ONE
    ceilings = [CEILING_BUSY if CONTAMINATED in record.flags else ceiling for record in several]
    found = [next(_check_phases(*each), "") for each in zip(several, ceilings, strict=True)]
    return found if all(found) else []


def _check_phases(record: Record, ceiling: float) -> Iterator[str]:
    train, parts = record.phases.get("train"), {n: p for n, p in record.phases.items() if n in ("compute", "input")}
    if train is None:
        return
    loader = record.settings.get("loader")
    queue = not isinstance(loader, dict) or loader.get("prefetch") != 0 or loader.get("workers") != 0
    for name, part in parts.items():
        fastest, slowest = min(part.step_times_s), max(train.step_times_s)
        if not (queue and name == "input") and fastest > ceiling * slowest:
            yield f"a step takes {fastest:.3g} s in {name}, and {slowest:.3g} s in train, of which that is a part"
    both = sum(max(part.step_times_s) for part in parts.values())
    serial = SERIAL_BUSY if CONTAMINATED in record.flags else SERIAL_MOST
    compiled = compiled_in_windows(record)  # which is neither of the two
    if len(parts) == 2 and not compiled and min(train.step_times_s) > serial * both:
        yield f"a step takes {min(train.step_times_s):.3g} s in train, and {both:.3g} s in compute and input together"


def compiled_in_windows(record: Record) -> int:
    """How many programs training compiled inside its windows."""
    shapes = shapes_of(record)
    return shapes.compiled if shapes else 0


def _length_of(record: Record) -> int | None:
    """The length of a workload's texts; None of a reader's own workload."""
    known = record.cell.workload in WORKLOADS
    return getattr(specification(record.cell.workload, record.cell.size), "length", None) if known else None


def check_lengths(record: Record) -> Iterator[str]:
    """Words fit into the places of a window, these into batches of the workload's length, and operations to them.

    Operations grow in proportion to the length of a batch at least, and with its square at most.
    """
    shapes, train = shapes_of(record), record.phases.get("train")
    if not shapes or not train:
        return
    samples = [window.steps * record.effective_batch for window in train.windows]
    if not len(shapes.words) == len(shapes.places) == len(samples):
        yield f"words and padding were counted in {len(shapes.words)} windows, of {len(samples)}"
    for words, places, n in zip(shapes.words, shapes.places, samples, strict=False):
        if not n <= words <= places <= n * shapes.longest:
            yield f"{n} samples of {shapes.longest} words at most have {words} words and {places - words} of padding"
    if (length := _length_of(record)) not in (None, shapes.longest):
        yield f"the longest text has {length} words, and here {shapes.longest}"
    part = sum(shapes.places) / (sum(samples) * shapes.longest)
    full = positive(record.workload.get("training_flops_per_sample"))
    share = shapes.training_flops_per_sample / full if full else 1.0
    if not TILED * part**2 <= share <= 1 + 1e-9:
        yield f"operations are {share:.3g} of those at the workload's length, and batches {part:.3g} as long"
    if shapes.compiled > shapes.programs:
        yield f"{shapes.compiled} of {shapes.programs} programs were compiled inside the windows"
    if train.spans and shapes.cover_s > (1 + ROUNDED) * train.spans[0][0]:
        yield f"steps at all lengths take {shapes.cover_s:.3g} s, and windows begin after {train.spans[0][0]:.3g} s"


def check_profile(record: Record) -> Iterator[str]:
    profile, train = record.profile, record.phases.get("train")
    if not profile or not train:
        return
    least, most = min(train.step_times_s), max(train.step_times_s)
    if not PROFILED[0] * least <= profile.step_s <= PROFILED[1] * most + LATE_S / profile.steps:
        yield f"a step takes {profile.step_s:.3g} s profiled, and {least:.3g} to {most:.3g} s timed"


def check_rate(record: Record, peak: float | None = None, limit: float = PEAK_OF_FEW) -> Iterator[str]:
    """No phase does more floating-point operations than the device can: ``limit`` times its own ``peak``, or another.

    Where the answer is about the last word alone, a pass that serves has fewer of them than an evaluation.
    """
    decodes = record.inference is not None and bool(record.inference.decoded)
    answering = record.workload.get(f"{'answer_' if decodes else ''}flops_per_sample")
    flops = {False: positive(training_flops(record)), True: positive(answering)}
    most = peak or positive(record.settings.get("peak_flops_per_s"))
    if not most:
        return
    for name, phase in record.phases.items():
        share = (flops[PHASES[name].serves] or 0.0) * record.effective_batch / phase.step_s / most
        if name != "input" and share > limit:
            yield f"{name} reaches {share:.0%} of the highest rate that was measured"
    for each in record.inference.decoded if record.inference else ():
        per_word = (flops[True] or 0.0) / (each.prompt + each.words)  # or more: each has its logits
        if (share := per_word * each.batch * each.words / each.decode_s / most) > limit:
            yield f"decoding reaches {share:.0%} of the highest rate that was measured"


#: Bytes of a checkpoint for each weight, at most: in float64, with two moments; and of what else is in it.
BYTES_OF_WEIGHT, BYTES_BESIDES = 32, 2**20


def saving(record: Record) -> Iterator[Bound]:
    """Saves take the time that passed outside, and their bytes are about those of the weights."""
    saved = list((record.checkpoints or {}).values())
    yield from by_parent(record, "saves", "seconds of all saves", [math.fsum(each.disk_s) for each in saved])
    for each in saved:
        if weights := positive(record.workload.get("parameters")):
            most = BYTES_OF_WEIGHT * weights + BYTES_BESIDES
            yield Bound("bytes of a checkpoint", each.bytes, weights, most, "the number of weights")


def check_course(record: Record) -> Iterator[str]:
    """The epochs of a training to the end fit into the time that passed and fill it, and into the counts."""
    course, ledger = record.course, record.ledger
    assert course
    if len({epoch.steps for epoch in course.epochs}) > 1:  # published: one number in each of 69 launches
        yield "epochs have different numbers of steps"
    here = course.epochs[max(course.resumed_at, default=0) :]
    took_s = math.fsum(epoch.train_s + epoch.evaluation_s for epoch in here)
    took_s -= record.compile_s or 0.0 if here else 0.0  # which came before
    passed_s = {"": sum(end - begin for begin, end in record.phases["train"].spans)}
    passed_s[" outside"] = sum(ledger.seen_s.get("train", ())) if ledger else 0.0
    for where, passed in passed_s.items():  # published: 0.996 to 1.000 (51 launches)
        late_s = (len(here) * LATE_S + sum(find_late_s(record, "train")) if where else 0.0) + LATE_S
        if passed and not FILL[0] * passed - late_s - len(here) * SAVING_S <= took_s <= FILL[1] * passed + late_s:
            yield f"epochs take {took_s:.3g} s, and {passed:.3g} s passed{where}"
    if ledger is None:
        return
    if ledger.delivered != (steps := sum(epoch.steps for epoch in here)):
        yield f"the loader delivered {ledger.delivered} batches, and epochs took {steps}"
    yield from _updates(record, ledger, sum(epoch.steps for epoch in course.epochs))


def _steps(phase: Phase) -> int:
    return sum(window.steps for window in (*phase.warmup, *phase.windows))


def _seconds(phase: Phase) -> float:
    return math.fsum(window.seconds for window in phase.windows)


def positive(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 < value < math.inf else None
