"""Decoding: a model goes on with prompts word by word, from a cache of keys and values, each with the largest logit."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from suite.record.inference import Decoded
from suite.record.parts.history import NUMBER_MOST
from workloads.data.dataset import Array

#: Prompts at once, and rounds of each: more, until so many seconds have passed.
DECODED, ROUNDS, ROUNDS_S = (1, 8), 3, 2.0
#: Samples whose words are held against other frameworks' in float64.
CONTINUED = 2


def decode(model: Any, training: Any, samples: Array, length: int) -> tuple[Decoded, ...]:
    """Time the words that follow the first halves of some samples (n, ``length``)."""
    found, half = [], length // 2
    for batch in DECODED:
        prompts = np.ascontiguousarray(np.resize(samples, (batch, length))[:, :half])
        inputs, _ = training.put((prompts, prompts))
        times: list[tuple[float, float]] = []
        begin = time.perf_counter()
        while len(times) <= ROUNDS or time.perf_counter() - begin < ROUNDS_S:
            start = time.perf_counter()
            state = model.prefill(inputs)
            model.fence(deque([state[0]]))
            middle = time.perf_counter()
            for _ in range(length - half):
                words, state = model.decode(state)
            model.fence(deque([words, state[0]]))
            times.append((middle - start, time.perf_counter() - middle))
        prefill_s, decode_s = np.median(times[1:], axis=0).tolist()  # the first round compiles
        found.append(Decoded(batch, half, length - half, prefill_s, decode_s))
    return tuple(found)


def continued(model: Any, training: Any, prompts: Array, length: int) -> tuple[Array, float]:
    """The words that follow prompts (b, n) in a window of ``length``, and how far off their logits are.

    That is, off those of a pass of the ``training`` over the whole window, without a cache: relative, in the L2 norm.
    Where a word has not the largest logit, all are off.
    """
    inputs, _ = training.put((np.ascontiguousarray(prompts), np.zeros(len(prompts), np.int32)))
    state, words, logits = model.prefill(inputs), [], []
    for _ in range(length - prompts.shape[1]):
        logits.append(model.on_host(state[0]).astype(np.float64))
        word, state = model.decode(state)
        words.append(model.on_host(word).astype(np.int32))
    chosen, found = np.stack(words, 1), np.stack(logits, 1)
    window = np.concatenate([prompts, chosen], 1)
    whole = training.logits(training.put((window, window)))[:, prompts.shape[1] - 1 : -1]
    off = float(np.linalg.norm(found - whole) / np.linalg.norm(whole))
    greedy = np.array_equal(found.argmax(-1), chosen) and np.isfinite(off)
    return chosen, off if greedy else NUMBER_MOST
