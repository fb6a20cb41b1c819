"""Inference after the windows of training, by the object that was timed: windows of passes, requests, and decoding.

A window is one of `suite.worker.launch.measure`: passes at the cell's batch, from resident batches or with the loader.
A request is one sample from the host whose logits are back there: that is its fence, so each is timed by itself.
Decoding goes on with prompts word by word, from a cache of keys and values, each with the largest logit.
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
from typing import Any, NamedTuple

import numpy as np

from suite.catalog.phases import PHASES
from suite.plan.cell import Cell
from suite.plan.measuring import DECODED, LEAST_FOR_P99
from suite.record.job import Job
from suite.record.parts.evidence import Decoded, Inference
from suite.record.parts.history import NUMBER_MOST
from suite.record.record import Window
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.measure import Series, Steps
from suite.worker.launch.phases import Measured, Send, Timed, collect_phases, send_phases
from workloads.data.augment import evaluation_batches
from workloads.data.dataset import Array, DataSet

#: Samples that requests are made of, in a random order; and requests whose answers are kept.
SAMPLES, ANSWERS_KEPT = 64, 8
#: Requests before those that count, and seconds after which no more are sent.
WARM_UP, LONGEST_S = 50, 60.0
#: Rounds of each number of prompts: more, until so many seconds have passed.
ROUNDS, ROUNDS_S = 3, 2.0
#: Samples whose words are held against other frameworks' in float64.
CONTINUED = 2


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


class Rounds(NamedTuple):
    """What was timed of some prompts (b, n) at once, and the words (b, m) that the last round wrote."""

    decoded: Decoded
    prompts: Array
    words: Array


def decode(
    model: Any, training: Any, samples: Array, length: int, send: Callable[..., None] = lambda **_: None
) -> list[Rounds]:
    """Time the words that follow the first halves of some samples (n, ``length``); ``send`` tells when they begin.

    Raises `RecompiledError` if any round but the first had to compile.
    """
    rounds, half = [], length // 2
    for batch in DECODED:
        prompts = np.ascontiguousarray(np.resize(samples, (batch, length))[:, :half])
        inputs, _ = training.put((prompts, prompts))
        _round(model, inputs, length - half)
        times: list[tuple[float, float]] = []
        compiled = model.count_compiled()
        send(begin="decode")
        begin = time.perf_counter()
        while len(times) < ROUNDS or time.perf_counter() - begin < ROUNDS_S:
            prefill_s, decode_s, words = _round(model, inputs, length - half)
            times.append((prefill_s, decode_s))
        send(took="decode")
        refuse_compiled(model, compiled)
        prefill_s, decode_s = np.median(times, axis=0).tolist()
        decoded = Decoded(batch, half, length - half, prefill_s, decode_s, len(times))
        rounds.append(Rounds(decoded, prompts, _on_host(model, words)))
    return rounds


def _round(model: Any, inputs: Any, count: int) -> tuple[float, float, list[Any]]:
    """The seconds of the prompts' pass and of so many words after it, and the words, which are on the device."""
    words = []
    start = time.perf_counter()
    state = model.prefill(inputs)
    model.fence(deque([state[0]]))
    middle = time.perf_counter()
    for _ in range(count):
        word, state = model.decode(state)
        words.append(word)
    model.fence(deque([word, state[0]]))
    return middle - start, time.perf_counter() - middle, words


def check_decoded(rounds: Rounds, model: Any, training: Any, length: int) -> float:
    """How far the logits of what was timed are off those of passes without a cache, as `continue_prompts` has it.

    Where other words were timed than those that follow one by one, all are off.
    """
    words, off = continue_prompts(model, training, rounds.prompts, length)
    return off if np.array_equal(words, rounds.words) else NUMBER_MOST


def continue_prompts(model: Any, training: Any, prompts: Array, length: int) -> tuple[Array, float]:
    """The words that follow prompts (b, n) in a window of ``length``, and how far off their logits are.

    That is, off those of a pass of the ``training`` over the whole window, without a cache, at the position where that
    is most: relative, in the L2 norm. Where a word has not the largest logit, all are off.
    """
    inputs, _ = training.put((np.ascontiguousarray(prompts), np.zeros(len(prompts), np.int32)))
    state, words, logits = model.prefill(inputs), [], []
    for _ in range(length - prompts.shape[1]):
        logits.append(model.on_host(state[0]).astype(np.float64))
        word, state = model.decode(state)
        words.append(word)
    chosen, cached = _on_host(model, words), np.stack(logits, 1)
    window = np.concatenate([prompts, chosen], 1)
    whole = training.logits(training.put((window, window)))[:, prompts.shape[1] - 1 : -1]
    off = float((np.linalg.norm(cached - whole, axis=(0, 2)) / np.linalg.norm(whole, axis=(0, 2))).max())
    greedy = np.array_equal(cached.argmax(-1), chosen) and np.isfinite(off)
    return chosen, off if greedy else NUMBER_MOST


def refuse_compiled(model: Any, compiled: int) -> None:
    """Raises `RecompiledError` if the model has compiled since it had so many programs."""
    if (now := model.count_compiled()) != compiled:
        raise RecompiledError(f"compiled inside of what is timed: {compiled} programs before it, {now} after")


def _on_host(model: Any, words: list[Any]) -> Array:
    return np.stack([model.on_host(word) for word in words], 1).astype(np.int32)
