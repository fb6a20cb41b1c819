"""What the figures of a launch lie between, by others of its record that were read in another way.

Each function yields `Bound`s; `suite.analysis.records.ledger` lists them. Beside each limit stand the outermost figures
of the launches that the project published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from suite.catalog.metrics import first_gpu, joules_per_sample, number, within
from suite.plan.cell import USUAL_COMPILE, WORKLOADS
from suite.plan.measuring import DECODED
from suite.record.disturbance import find_late_s
from suite.record.record import Record

#: A process may wait for a core between two windows, and a message takes its time to the parent, which may be busy:
#: seconds each time, and a share. Measured with launches of all frameworks: 0.005 s, and 0.07 s where others kept three
#: times as many cores busy.
LATE_S, LATE = 0.1, 0.05
#: The same for what is timed once, besides the share.
ONCE_S = 0.5
#: Two clocks of one time, and sums that are rounded.
ROUNDED = 0.01


class Bound(NamedTuple):
    """A ``figure``, its value, and the range in which it lies ``by`` other figures of the record."""

    figure: str
    value: float
    least: float
    most: float
    by: str

    @property
    def problem(self) -> str:
        if self.least <= self.value <= self.most:
            return ""
        return f"{self.figure} is {self.value:.3g}, and {self.least:.3g} to {self.most:.3g} by {self.by}"


def clocks(record: Record) -> Iterator[Bound]:
    """What the worker timed, by the parent's clock, which stamps its messages."""
    if record.startup:
        yield from by_parent(record, "startup", "seconds of the startup", [math.fsum(record.startup.values())])
    if record.compile_s is not None:
        yield from by_parent(record, "compile", "seconds of compiling", [record.compile_s])
    if record.first_step_s is not None:
        yield from by_parent(record, "first_step", "seconds of the first step", [record.first_step_s])
    if found := record.inference:
        yield from by_parent(record, "first_batch", "seconds of the first pass", [found.first_batch_s])
        yield from by_parent(record, "first_request", "seconds of the first request", [found.first_s])
        yield from by_parent(record, "requests", "seconds of all requests", [found.seconds])
    if record.course:
        here = record.course.epochs[max(record.course.resumed_at, default=0) :]
        own_s = [epoch.train_s for epoch in here]
        if here:
            own_s[0] -= record.compile_s or 0.0  # which came before
        yield from by_parent(record, "epoch", "seconds of an epoch", own_s)
        both_s = [own + epoch.evaluation_s for own, epoch in zip(own_s, here, strict=True)]
        yield from by_parent(record, "evaluated", "seconds of an epoch with its evaluation", both_s)


def by_parent(record: Record, name: str, figure: str, own_s: Sequence[float]) -> Iterator[Bound]:
    seen_s = _seen(record, name)
    if seen_s and len(seen_s) != len(own_s):
        yield Bound(f"number of times of {name}", len(own_s), len(seen_s), len(seen_s), "the parent's clock")
    for own, seen, once_s in zip(own_s, seen_s, (ONCE_S + each for each in find_late_s(record, name)), strict=False):
        yield Bound(figure, own, (1 - LATE) * seen - once_s, (1 + ROUNDED) * seen + once_s, "the parent's clock")


def _seen(record: Record, name: str) -> tuple[float, ...]:
    return record.ledger.seen_s.get(name, ()) if record.ledger else ()


def moments(record: Record) -> Iterator[Bound]:
    """One after the other: startup, compiling, the first step, warming up, windows, until the parent has it all.

    Published: the windows begin after 0.996 of the first five at most, and end at 0.972 of the duration.
    """
    train = record.phases["train"]
    begun_s = math.fsum([*record.startup.values(), record.first_step_s or record.compile_s or 0.0])
    if train.spans:
        least_s = begun_s + math.fsum(window.seconds for window in train.warmup)
        most_s = (1 + ROUNDED) * train.spans[0][0] + LATE_S
        yield Bound("seconds of the startup and the first step", least_s, 0, most_s, "when the windows began")
    if record.compile_s is not None and record.first_step_s is not None:
        yield Bound("seconds of compiling", record.compile_s, 0, (1 + ROUNDED) * record.first_step_s, "the first step")
    if took_s := number(record.run.get("took_s")):
        took_s -= number(record.run.get("searching_s")) or 0.0
        ended_s = max((end for phase in record.phases.values() for _, end in phase.spans), default=begun_s)
        if record.profile and record.profile.span:
            ended_s = max(ended_s, record.profile.span[1])
        if found := record.inference:  # of the prompts, half of the rounds took the median or more
            rounds = (max(each.rounds, 3) / 2 * (each.prefill_s + each.decode_s) for each in found.decoded)
            ended_s += found.seconds + math.fsum(rounds)
        yield Bound("seconds until all was timed", ended_s, 0, (1 + ROUNDED) * took_s + LATE_S, "the launch's duration")


#: The peak of a process over the most that the monitor saw of it while it trained. Published: 0.999 to 1.93 (964).
SEEN = (0.5, 5.0)


def memory(record: Record) -> Iterator[Bound]:
    """Peaks fit into the machine's memory or the GPU's, and are near what the monitor saw.

    Several processes share pages, which count for each of them; compilers and loaders may have processes of their own.
    """
    hosts = 1 + max((rank.host for rank in record.ranks.per_rank), default=0) if record.ranks else 1
    machine = number(within(record.environment, "machine", "memory_bytes"))
    gpu = number(first_gpu(record).get("memory_bytes"))
    device = gpu if record.settings.get("device") == "cuda" else machine
    if device and machine and record.cell.allocator == "unified":
        device += machine
    sizes: list[tuple[str, Any]] = list(record.memory.items())
    tries = record.settings.get("batch_search")
    for each in tries if isinstance(tries, list) else ():
        sizes += list(found.items()) if isinstance(found := within(each, "memory"), dict) else []
    if record.inference and record.inference.memory_bytes:
        sizes.append(("memory of inference", record.inference.memory_bytes))
    for name, size in sizes:
        own = machine and hosts * machine * min(2, record.cell.processes)
        most = own if name.startswith("rss") else device
        if most and (found := number(size)) is not None:
            yield Bound(f"{name} in bytes", found, 0, most, "the memory that there is")
    peak, reserved = (record.memory.get(f"allocator_{name}_bytes") for name in ("peak", "reserved"))
    if peak and reserved:
        yield Bound("allocator_peak_bytes", peak, 0, reserved, "what the allocator reserved")
    weights = number(record.workload.get("parameters"))
    for name, size in record.memory.items():
        if weights:
            yield Bound(f"{name} in bytes", size, 2 * weights / record.cell.devices, math.inf, "the number of weights")
    seen = number(within(record.metrics, "host", "phases", "train", "rss_bytes", "max"))
    if seen and (rss := record.memory.get("rss_peak_bytes")):
        loader = record.settings.get("loader")
        alone = isinstance(loader, dict) and loader.get("workers") in (0, "autotune") and hosts == 1
        alone = alone and record.cell.compile == USUAL_COMPILE.get(record.cell.framework)
        yield Bound("rss_peak_bytes", rss, SEEN[0] * seen if alone else 0, SEEN[1] * seen, "the monitor's readings")


#: A median over the mean that a counter gives, at most, but for so many cores: half of all readings are no less than
#: their median. Published: 1.40 (964).
COUNTED, COUNTED_CORES = 2.0, 0.5
#: The median of power over that by the energy; a sensor lags. Not measured on a GPU.
POWER = (0.25, 4.0)


def readings(record: Record) -> Iterator[Bound]:
    """The monitor's medians lie between its percentiles, and near what counters give over the whole phase."""
    sources = {"host": record.metrics.get("host"), "gpu": first_gpu(record)}
    for source in sources.values():
        found = within(source, "phases", "train")
        for name, reading in found.items() if isinstance(found, dict) else ():
            least, middle, most = (number(within(reading, part)) for part in ("p5", "median", "p95"))
            if least is not None and middle is not None and most is not None:
                off = 1e-5 * max(abs(least), abs(most))
                yield Bound(f"the median of {name}", middle, least - off, most + off, "its percentiles")
    passed_s = math.fsum(end - begin for begin, end in record.phases["train"].spans)
    for name, counter in (("cpu_cores", "cpu_s"), ("other_cpu_cores", "other_cpu_s")):
        middle = number(within(sources["host"], "phases", "train", name, "median"))
        counted = number(within(sources["host"], "totals", "train", counter))
        if middle is not None and counted is not None and passed_s:
            most = COUNTED * counted / passed_s + COUNTED_CORES
            yield Bound(f"the median of {name}", middle, 0, most, "its counter")
    names = ("power_w", "power_from_energy_w", "memory_used_bytes")
    *powers, used = (number(within(sources["gpu"], "phases", "train", name, "median")) for name in names)
    size, joules, passed_s = number(within(sources["gpu"], "memory_bytes")), joules_per_sample(record), 0.0
    if joules and record.samples_per_s:
        passed_s = record.cell.devices / record.samples_per_s
    elif record.course and record.course.epochs_to_target:
        joules = number(within(sources["gpu"], "energy_j_to_target"))
        until = record.course.epochs[: record.course.epochs_to_target]
        passed_s = math.fsum(epoch.train_s + epoch.evaluation_s for epoch in until)
    if joules and passed_s:
        mean = joules / passed_s
        for name, power in zip(names, powers, strict=False):
            if power:
                yield Bound(f"the median of {name}", power, POWER[0] * mean, POWER[1] * mean, "the energy")
    if used and size:
        yield Bound("the median of memory_used_bytes", used, 0, size, "the memory that there is")


#: The sum of a profile's categories over its step. Published: 0.9995 to 1.0003 (288).
SUMMED = (0.5, 1.05)


def profile(record: Record) -> Iterator[Bound]:
    """The categories of a profile add up to its step, and its operations to no more."""
    if not (found := record.profile):
        return
    total = math.fsum(share.seconds for share in found.categories.values())
    least, most = SUMMED
    yield Bound("seconds of all categories", total, least * found.step_s, most * found.step_s, "the profiled step")
    times, rest = found.read_note()
    yield Bound("letters of its note", len(rest), 0, 0, "the words that the suite writes")
    if times is not None:
        yield Bound("times that its note says", times, found.cost - ROUNDED, found.cost + ROUNDED, "its steps")
    for name, share in found.categories.items():
        own = math.fsum(each.seconds for each in found.operations if each.category == name)
        yield Bound(f"seconds of {name}", share.seconds, (1 - ROUNDED) * own, math.inf, "its operations")
    least, most = ((1 + off) * record.phases["train"].step_s for off in (-ROUNDED, ROUNDED))
    yield Bound("seconds of a timed step", found.timed_s, least, most, "its windows")


def history(record: Record) -> Iterator[Bound]:
    """The windows of a training to its end are its epochs, and losses and accuracies fit to each other."""
    if not (course := record.course):
        return
    recipe = record.workload.get("recipe")
    if (target := number(within(recipe, "target"))) is not None:
        yield _equal("target", course.target, target, "the recipe")
    windows = record.phases["train"].windows
    yield Bound("number of windows", len(windows), len(course.epochs), len(course.epochs), "the number of epochs")
    for window, epoch in zip(windows, course.epochs, strict=False):
        yield Bound("number of steps", window.steps, epoch.steps, epoch.steps, "the epoch")
        yield _equal("seconds of a window", window.seconds, epoch.train_s, "the epoch")
    if course.curve:
        mean = math.fsum(course.curve) / len(course.curve)
        yield _equal("train_loss of the first epoch", course.epochs[0].train_loss, mean, "the losses of its steps")
    if record.cell.workload in WORKLOADS:  # whose loss is a cross entropy: a wrong label has at most half of all
        for epoch in course.epochs:
            least = (1 - epoch.test_accuracy) * math.log(2)
            yield Bound("test_loss", epoch.test_loss, (1 - ROUNDED) * least, math.inf, "the share of wrong answers")
    scored = record.identity.scored if record.identity else None
    if scored and scored.right is not None and scored.samples:
        off = 5 * math.sqrt(scored.right * (1 - scored.right) / scored.samples + 1 / scored.samples**2)
        least, most = scored.right - off, scored.right + off
        yield Bound("test_accuracy", course.final_accuracy, least, most, "some answers that were taken again")


def _equal(figure: str, value: float, other: float, by: str) -> Bound:
    off = 1e-6 * abs(other)
    return Bound(figure, value, other - off, other + off, by)


def serving(record: Record) -> Iterator[Bound]:
    """Percentiles of requests fit to the time of all of them, and the rounds of decoding to the parent's clock."""
    if not (found := record.inference):
        return
    n = found.requests
    tail_s = 0.04 * n * (found.p99_s or found.worst_s) + 0.01 * n * found.worst_s
    most_s = math.fsum([0.5 * n * found.median_s, 0.45 * n * found.p95_s, tail_s]) + found.worst_s * 3
    least_s = math.fsum([0.45 * n * found.median_s, 0.04 * n * found.p95_s, 0.01 * n * (found.p99_s or found.p95_s)])
    yield Bound("seconds of all requests", found.seconds, (1 - ROUNDED) * least_s, most_s, "their percentiles")
    for at, each in enumerate(found.decoded):
        word_s = each.decode_s / each.words
        yield Bound("prompts at once", each.batch, DECODED[at % 2], DECODED[at % 2], "the plan")
        yield Bound("words after a prompt", each.words, each.prompt, each.prompt + 1, "the words of a prompt")
        # A pass over words takes about as long as one over a word, or longer, and no longer than one after another.
        most_s = (1 + each.prompt) * word_s + LATE_S
        yield Bound("seconds of a prompt", each.prefill_s, 0.2 * word_s, most_s, "the seconds of a word")
        for seen in _seen(record, "decode")[at : at + 1] if each.rounds else ():  # half of them take the median or more
            total = each.rounds * (each.prefill_s + each.decode_s)
            yield Bound("seconds of decoding", total, 0.5 * seen - LATE_S, 1.5 * seen + LATE_S, "the parent's clock")


def devices(record: Record) -> Iterator[Bound]:
    """What the processes of several devices say fits to what they did together."""
    if not (ranks := record.ranks):
        return
    train, each = record.phases["train"], ranks.per_rank
    slowest = max(train.step_times_s)
    for rank in each:
        yield Bound("seconds of a rank's step", rank.train_step_s_median, 0, (1 + ROUNDED) * slowest, "the windows")
        rate = record.effective_batch / rank.train_step_s_median if rank.train_step_s_median else 0.0
        least = (1 - ROUNDED) * rate / len(each)  # or all samples, where the model is divided
        yield Bound("samples/s of a rank", rank.train_samples_per_s, least, (1 + ROUNDED) * rate, "its step")
    local = [rank.local_step_s_median for rank in each if rank.local_step_s_median]
    if ranks.skew is not None and local:
        skew = max(local) / median(local)
        yield Bound("skew", ranks.skew, 0.95 * skew, 1.05 * skew, "the steps of all ranks")
    if sums := ranks.allreduce:
        yield _equal("bytes_per_s of a sum", sums.bytes_per_s, sums.bytes / sums.seconds_median, "its seconds")
        yield _equal("bytes of a sum", sums.bytes, ranks.gradient_bytes, "the gradient")
        yield Bound("peak_bytes_per_s", sums.peak_bytes_per_s, (1 - ROUNDED) * sums.bytes_per_s, math.inf, "the sums")
        for seen in _seen(record, "allreduce"):
            total = sums.n * sums.seconds_median
            yield Bound("seconds of the sums", total, 0.1 * seen - LATE_S, 2 * seen, "the parent's clock")


def work(record: Record) -> Iterator[Bound]:
    """A step takes the samples that the cell asks for, or as many as a search found to fit, at most.

    Training takes one to ten times the operations of a forward pass, and checkpointing keeps no more than is usual.
    """
    forward, training = (number(record.workload.get(f"{name}flops_per_sample")) for name in ("", "training_"))
    if forward and training:
        yield Bound("operations of training", training, forward, 10 * forward, "a forward pass")
    if found := record.identity.recomputed if record.identity else None:
        yield Bound("bytes that are kept", found.kept_bytes, 0, found.usual_bytes, "what is usual")
    said, tries = number(record.settings.get("effective_batch")), record.settings.get("batch_search")
    fitted = [each for each in tries if within(each, "status") == "ok"] if isinstance(tries, list) else []
    most = max((number(within(each, "batch")) or 0.0 for each in fitted), default=0.0)
    exactly, most = record.cell.effective_batch, most * record.cell.accumulate * record.cell.devices
    if said is not None and (exactly or most):
        yield Bound("samples of a step", said, exactly or 1, exactly or most, "the cell")
