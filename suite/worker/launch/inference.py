"""Inference after the windows of training, by the object that was timed: windows of passes, then single requests.

A window is one of `suite.worker.launch.measure`: passes at the cell's batch, from resident batches or with the loader.
A request is one sample from the host whose logits are back there: that is its fence, so each is timed by itself.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import cycle
from types import ModuleType
from typing import Any

import numpy as np

from suite.catalog.phases import PHASES
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_FOR_P99
from suite.record.job import Job
from suite.record.parts.evidence import Inference
from suite.record.record import Window
from suite.worker.launch.decoding import Rounds, check_decoded, decode, refuse_compiled
from suite.worker.launch.measure import Series, Steps
from suite.worker.launch.phases import Measured, Send, Timed, collect_phases, send_phases
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, DataSet

#: Samples that requests are made of, in a random order; and requests whose answers are kept.
SAMPLES, ANSWERS_KEPT = 64, 8
#: Requests before those that count, and seconds after which no more are sent.
WARM_UP, LONGEST_S = 50, 60.0


@dataclass
class Answers:
    """What the timed function answered, to be checked when nothing is timed any more.

    ``inputs`` are all samples of requests. ``kept`` are answers of timed requests, each with the number of its sample
    and of the sample of the request before it. ``batches`` are the last batch of each phase, and its answers.
    """

    inputs: Array
    batches: list[tuple[Array, Array]] = field(default_factory=list)
    kept: list[tuple[int, int, Array]] = field(default_factory=list)
    gradient: bool = False
    cached: float | None = None


def model_of(cell: Cell) -> ModuleType:
    """The file of the cell's framework that serves."""
    return import_module(f"suite.worker.frameworks.{cell.framework}.inference")


def resident(timed: Timed) -> Steps:
    return _passes(cycle(timed.held), timed)


def passes_over_loader(timed: Timed) -> Steps:
    return _passes(timed.loader, timed)


def _passes(batches: Any, timed: Timed) -> Steps:
    """Passes that wait for all answers at their end, and leave the last batch and its answers in ``timed.last``."""
    model, most = timed.model, timed.pending

    def steps(count: int) -> None:
        pending: deque[Any] = deque(maxlen=most)
        for _ in range(count):
            inputs, _ = next(batches)
            pending.append(model.predict(inputs))
        model.fence(pending)
        timed.last[:] = [inputs, pending[-1]]

    return steps


def measure_inference(
    training: Any, loader: Any, before: Measured, *, job: Job, subject: Any, send: Send
) -> Answers:  # fmt: skip
    """Measure the plan's phases that serve, and requests; sends both with the phases ``before``, and returns answers.

    ``subject`` is what the evidence is about, with the data and the framework. Raises `RecompiledError` if anything
    that is timed had to compile.
    """
    cell, plan, framework, device = job.cell, job.plan, subject.framework, subject.device
    module = model_of(cell)
    delivered = loader.delivered
    send(progress="infer")
    samples = _samples(subject.data, subject.length, job.seed)
    model, answers = module.Model(training), Answers(samples)
    try:
        first_batch_s = _first(lambda: model.fence(deque([model.predict(before.held[0][0])])), send, "first_batch")
        first_s = _first(lambda: model.answer(samples[:1]), send, "first_request")
        framework.reset_memory(device)  # what the first passes tried out is no peak of those that follow
        series: dict[str, Series] = {}
        timed = Timed(training, loader, before.held, model=model, pending=module.PENDING)
        for name in (name for name in plan.with_parts if PHASES[name].serves):
            say, begin = _say(name, cell.effective_batch, send), partial(send, begin=name)
            series[name] = Series(timed.steps(name), plan, say, begin=begin)
        for each in series.values():
            compiled = model.count_compiled()
            each.warm_up()
            each.burst(plan.windows)
            refuse_compiled(model, compiled)
            inputs, logits = timed.last
            answers.batches.append((training.get((inputs, inputs))[0], model.on_host(logits)))
            send_phases(send, before.phases | collect_phases(series, job.spawned_ns))
        ledger = replace(before.ledger, delivered=before.ledger.delivered + loader.delivered - delivered)
        send(part={"ledger": asdict(ledger)})
        send(progress="infer: requests")
        compiled = model.count_compiled()
        draw, begin = random.Random(job.seed), partial(send, begin="requests")  # noqa: S311 - no secret
        latencies_s = requests(model.answer, answers, plan.requests, draw, begin=begin)
        send(took="requests")
        refuse_compiled(model, compiled)
        rounds: list[Rounds] = []
        if subject.spec.decodes:
            send(progress="infer: decoding")
            rounds = decode(model, training, samples, subject.length, send)
        memory = framework.memory(device).get("allocator_peak_bytes") if module.FORGETS_PEAKS else None
        if rounds:
            answers.cached = max(check_decoded(each, model, training, subject.length) for each in rounds)
        answers.gradient = model.keeps_gradient(samples[:1])
    finally:
        model.close()
    others = {"first_s": first_s, "first_batch_s": first_batch_s, "memory_bytes": memory}
    inference = summary(latencies_s, **others, decoded=tuple(each.decoded for each in rounds))
    send(part={"inference": asdict(inference)})
    return answers


def requests(
    answer: Callable[[Array], Array], answers: Answers, count: int, draw: random.Random,
    clock: Callable[[], int] = time.perf_counter_ns, *, begin: Callable[[], None] = lambda: None,
) -> list[float]:  # fmt: skip
    """The seconds of each of ``count`` requests, or of as many as fit into `LONGEST_S`; some answers are kept.

    No request is of the same sample as the one before it. ``begin`` is called before the first that counts.
    """
    singles = [np.ascontiguousarray(answers.inputs[at : at + 1]) for at in range(len(answers.inputs))]
    order = _order(len(singles), WARM_UP + count, draw)
    for at in order[:WARM_UP]:
        answer(singles[at])
    keep = {*draw.sample(range(count), min(ANSWERS_KEPT, count))}
    latencies: list[float] = []
    begin()
    began, before = clock(), order[WARM_UP - 1]
    for number, at in enumerate(order[WARM_UP:]):
        single = singles[at]
        start = clock()
        logits = answer(single)
        end = clock()
        latencies.append(max(end - start, 1) / 1e9)
        late = end - began > LONGEST_S * 1e9
        if number in keep or late:
            answers.kept.append((at, before, logits))
        if late:
            break
        before = at
    return latencies


def summary(latencies_s: Sequence[float], **others: Any) -> Inference:
    """What a record has of the latencies of a launch's requests."""
    median_s, p95_s, p99_s = (float(each) for each in np.quantile(latencies_s, [0.5, 0.95, 0.99]))
    return Inference(
        len(latencies_s), median_s, p95_s, p99_s if len(latencies_s) >= LEAST_FOR_P99 else None, max(latencies_s),
        float(np.sum(latencies_s)), **others,
    )  # fmt: skip


def _order(samples: int, count: int, draw: random.Random) -> list[int]:
    order = [draw.randrange(samples)]
    while len(order) < count:
        step = draw.randrange(1, samples) if samples > 1 else 0
        order.append((order[-1] + step) % samples)
    return order


def _samples(data: DataSet, length: int | None, seed: int) -> Array:
    inputs, _, count = next(iter(evaluation_batches(data, min(SAMPLES * 4, len(data.test)), length)))
    drawn = random.Random(seed).sample(range(count), min(SAMPLES, count))  # noqa: S311 - no secret is drawn
    return np.ascontiguousarray(inputs[drawn])


def _first(call: Callable[[], Any], send: Send, name: str) -> float:
    send(begin=name)
    start = time.perf_counter_ns()
    call()
    seconds = max(time.perf_counter_ns() - start, 1) / 1e9
    send(took=name)
    return seconds


def _say(name: str, batch: int, send: Send) -> Callable[[Window], None]:
    def say(window: Window) -> None:
        send(progress=name, samples_per_s=batch * window.steps / window.seconds)

    return say
