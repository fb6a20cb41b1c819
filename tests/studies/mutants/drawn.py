"""Differences composed at random by a seed, so that nobody knows them beforehand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from suite.plan.cell import FRAMEWORKS
from tests.studies.mutants.mutant import Mutant, Target
from tests.studies.mutants.steps import Step, counted, put_back, stepping
from workloads.spec import specification

KIND = "drawn"
#: What begins later than this begins in no launch of the study, which takes 24 steps.
STEPS = 20
WORKLOADS = ("cifar100_cnn", "cifar100_resnet18", "imdb_lstm", "imdb_transformer")
#: Why nothing in a record notices a difference, by the seed and the number of its draw.
SURVIVES = {
    (20261125, 1): "it begins with the first step, so that a fresh model does the same; the tensor's movement is 7e-5 "
    "shorter, where frameworks may be 2e-4 apart, and no loss of two steps changes by a bit",
}
Arrays = dict[str, Any]
Batch = tuple[Any, Any]


def drawn(count: int, seed: int) -> list[Mutant]:
    """So many differences."""
    draw = random.Random(seed)
    return [replace(_one(draw, number), survives=SURVIVES.get((seed, number), "")) for number in range(count)]


def _one(draw: random.Random, number: int) -> Mutant:
    framework, workload = draw.choice(FRAMEWORKS), draw.choice(WORKLOADS)
    when_words, when = _when(draw)
    if draw.random() < 0.4:
        words, change = _of_the_batch(draw)
        plant = stepping(lambda target, step: _before(step, when, change))
    else:
        words, move = _of_the_weights(draw, workload)
        plant = stepping(lambda target, step: _after(target, step, when, move))
    return Mutant(KIND, f"{number}: {words}, {when_words}", framework, workload, plant, ())


def _when(draw: random.Random) -> tuple[str, Callable[[int], bool]]:
    """In which steps of an object, counted from 0."""
    kind, first, every = draw.randrange(3), draw.randrange(3, STEPS), draw.choice((2, 2, 3))
    if kind == 0:
        return "always", lambda taken: True
    if kind == 1:
        return f"after {first} steps", lambda taken: taken >= first
    return f"every {every} steps", lambda taken: taken % every == 0


def _of_the_batch(draw: random.Random) -> tuple[str, Callable[[Batch], Batch]]:
    share, kind = draw.choice((0.125, 0.25, 0.5)), draw.randrange(3)
    words = ("samples repeat", "labels belong to others", "inputs are rolled")[kind]

    def changed(batch: Batch) -> Batch:
        inputs, labels = (np.array(array) for array in batch)
        part = max(1, int(share * len(labels)))
        if kind == 0:
            inputs[-part:], labels[-part:] = inputs[:part], labels[:part]
        elif kind == 1:
            labels[:part] = np.roll(labels, 1)[:part]
        else:
            inputs[:part] = np.roll(inputs[:part], 1, axis=1)
        return inputs, labels

    return f"{share:.1%} of the {words}", changed


def _of_the_weights(draw: random.Random, workload: str) -> tuple[str, Callable[[Arrays, Arrays], Arrays]]:
    names = sorted(specification(workload, "small").reference_weights(0))
    name, factor, bits = draw.choice(names), draw.choice((0.0, 0.5, 0.9, 0.98, 1.02, 1.1)), draw.choice((8, 10, 13))
    share, kind = draw.choice((0.1, 0.5, 1.0)), draw.randrange(3)
    words = (
        f"{name} moves by {factor}", f"every tensor moves by {factor}", f"{share:.0%} of {name} kept in {bits} bits",
    )[kind]  # fmt: skip

    def moved(before: Arrays, after: Arrays) -> Arrays:
        if kind == 1:
            return {each: before[each] + factor * (after[each] - before[each]) for each in after}
        found = after[name].astype(np.float32)
        if kind == 0:
            return after | {name: before[name] + factor * (found - before[name])}
        flat, part = np.array(found).ravel(), max(1, int(share * found.size))
        mask = np.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)
        flat[:part] = (flat[:part].view(np.uint32) & mask).view(np.float32)
        return after | {name: flat.reshape(found.shape)}

    return words, moved


def _before(step: Step, when: Callable[[int], bool], change: Callable[[Batch], Batch]) -> Step:
    def changed(training: Any, batch: Any) -> Any:
        return step(training, training.put(change(training.get(batch))) if when(counted(training)) else batch)

    return changed


def _after(target: Target, step: Step, when: Callable[[int], bool], move: Callable[[Arrays, Arrays], Arrays]) -> Step:
    def moved(training: Any, batch: Any) -> Any:
        if not when(counted(training)):
            return step(training, batch)
        before = {name: np.array(array) for name, array in training.weights().items()}
        loss = step(training, batch)
        training.read([loss])
        put_back(target, training, move(before, {name: np.array(w) for name, w in training.weights().items()}))
        return loss

    return moved
