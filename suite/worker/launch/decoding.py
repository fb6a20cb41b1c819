"""Decoding: a model goes on with prompts word by word, from a cache of keys and values, each with the largest logit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from suite.plan.measuring import DECODED
from suite.record.parts.evidence import Decoded
from suite.record.parts.history import NUMBER_MOST
from suite.worker.frameworks import RecompiledError
from workloads.data.dataset import Array

#: Rounds of each number of prompts: more, until so many seconds have passed.
ROUNDS, ROUNDS_S = 3, 2.0
#: Samples whose words are held against other frameworks' in float64.
CONTINUED = 2


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
    found, half = [], length // 2
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
        found.append(Rounds(decoded, prompts, _on_host(model, words)))
    return found


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
    chosen, found = _on_host(model, words), np.stack(logits, 1)
    window = np.concatenate([prompts, chosen], 1)
    whole = training.logits(training.put((window, window)))[:, prompts.shape[1] - 1 : -1]
    off = float((np.linalg.norm(found - whole, axis=(0, 2)) / np.linalg.norm(whole, axis=(0, 2))).max())
    greedy = np.array_equal(found.argmax(-1), chosen) and np.isfinite(off)
    return chosen, off if greedy else NUMBER_MOST


def refuse_compiled(model: Any, compiled: int) -> None:
    """Raises `RecompiledError` if the model has compiled since it had so many programs."""
    if (now := model.count_compiled()) != compiled:
        raise RecompiledError(f"compiled inside of what is timed: {compiled} programs before it, {now} after")


def _on_host(model: Any, words: list[Any]) -> Array:
    return np.stack([model.on_host(word) for word in words], 1).astype(np.int32)
