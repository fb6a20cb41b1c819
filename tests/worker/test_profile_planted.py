"""Planted causes: what is added to a step on purpose is found in the category where a reader looks for it."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from suite.record.parts.profile import Profile
from suite.worker.profilers.profiling import profile_of, training_loop
from tests import frameworks
from workloads.spec import specification

pytestmark = [frameworks.needs_frameworks, pytest.mark.long]

STEPS, BATCH = 3, 16
#: How often the same steps are recorded: what else the machine does only adds to a category's time, so that the
#: least of them is closest to the truth.
RECORDINGS = 3


def profiled(
    workload: str, framework: str, plant: Callable[[Any], None] = lambda _: None,
    sleeps_s: Sequence[float] = (0.0,) * RECORDINGS, **changes: Any,
) -> list[Profile]:  # fmt: skip
    """The profile of some steps in size small for each time that the loader sleeps, with ``plant`` done first."""
    tools = import_module(f"suite.worker.profilers.{framework}")
    spec = replace(specification(workload, "small"), **changes)
    with frameworks.training(workload, framework, "fp32", spec=spec) as training:
        source, asleep_s, found = frameworks.batches(spec, BATCH), [0.0], []

        def loading() -> Iterator[Any]:
            for number in itertools.count():
                time.sleep(asleep_s[0])
                yield training.put(source[number])

        loader = loading()
        plant(training)
        training.compile(next(loader))
        loop = training_loop(training, loader, tools)
        loop(2)
        for sleep_s in sleeps_s:
            asleep_s[0] = sleep_s
            start = time.perf_counter()
            loop(STEPS)
            timed_s = (time.perf_counter() - start) / STEPS
            with tempfile.TemporaryDirectory() as folder:
                recording = tools.record(training, loop, STEPS, Path(folder), next(loader))
                found.append(profile_of(recording, STEPS, (timed_s, timed_s)))
    return found


def grown(before: Sequence[Profile], after: Sequence[Profile]) -> dict[str, float]:
    """By how many seconds the least time of each category grew, the largest first."""
    names = {name for profile in (*before, *after) for name in profile.categories}

    def seconds(profiles: Sequence[Profile], name: str) -> float:
        return min(profile.categories[name].seconds if name in profile.categories else 0.0 for profile in profiles)

    differences = {name: seconds(after, name) - seconds(before, name) for name in names}
    return dict(sorted(differences.items(), key=lambda item: -item[1]))


def most(before: Sequence[Profile], after: Sequence[Profile]) -> str:
    return next(iter(grown(before, after)))


@frameworks.needs_frameworks("pytorch")
def test_a_layout_change_before_each_convolution_is_named() -> None:
    def plant(training: Any) -> None:
        import torch

        def relaid(layer: Any, inputs: Any) -> Any:
            (x,) = inputs
            for _ in range(20):
                x = x.contiguous().contiguous(memory_format=torch.channels_last)
            return x

        for layer in training.model.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_pre_hook(relaid)

    before = profiled("cifar100_cnn", "pytorch")
    after = profiled("cifar100_cnn", "pytorch", plant)
    assert most(before, after) == "copy and layout change"


#: The loader is measured outside of the framework; each one's own profile is looked at after its launch.
@pytest.mark.parametrize(
    "framework", ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))]
)
def test_a_sleep_in_the_loader_is_named(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if framework == "tensorflow":  # whose executor may take products of this size to be cheap
        monkeypatch.setattr("suite.worker.profilers.tensorflow.check_products", lambda *_: None)
    before, after = profiled("imdb_lstm", framework, sleeps_s=(0.0, 0.2))
    assert most([before], [after]) == "input pipeline"
    assert after.categories["input pipeline"].seconds == pytest.approx(0.2, rel=0.3)


@pytest.mark.slow
@frameworks.needs_frameworks("tensorflow")
def test_a_slow_optimizer_is_named() -> None:
    def plant(training: Any) -> None:
        import tensorflow as tf

        update = training.optimizer.update_step

        def slow(gradient: Any, variable: Any, rate: Any) -> None:
            wave = gradient
            for _ in range(300):
                wave = tf.sin(wave)
            update(gradient + 0 * wave, variable, rate)

        training.optimizer.update_step = slow

    before = profiled("cifar100_cnn", "tensorflow")
    after = profiled("cifar100_cnn", "tensorflow", plant)
    assert most(before, after) == "optimizer"
