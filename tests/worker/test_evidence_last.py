"""What the evidence says of the timed object after its last window; in its place stands one of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from suite.worker.evidence.collector import Evidence
from suite.worker.evidence.updates import Replay
from suite.worker.loaders import BATCHES_KEPT, CountingLoader
from tests.frameworks import batches
from workloads.spec import specification
from workloads.weights import weights_digest

BATCH = 16


class Straight:
    """Moves every tensor by one in each step, but one that it is told to leave."""

    def __init__(self, stops: str = "") -> None:
        self.held = {"a/kernel": np.ones(4), "b/bias": np.zeros(4)}
        self.stops = stops

    def step(self, batch: Any) -> float:
        self.held = {name: array + (name != self.stops) for name, array in self.held.items()}
        return 1.0

    def weights(self) -> dict[str, Any]:
        return self.held

    def read(self, losses: list[float]) -> list[float]:
        return losses

    def get(self, batch: Any) -> Any:
        return batch

    def put(self, batch: Any) -> Any:
        return batch

    def fence(self, pending: Any) -> None:
        pass

    def checkpoint(self) -> dict[str, Any]:
        return dict(self.held)

    def restore(self, state: dict[str, Any]) -> None:
        self.held = state


def after_the_windows(
    delivered: Iterator[Any], training: Straight, precision: str = "fp32", whole: bool = True, seed: int = 0
) -> Any:
    """What `Evidence.last` makes of a loader, of which twenty batches were taken before."""
    loader = CountingLoader(SimpleNamespace(settings={}, close=None, __next__=None), seed)
    loader.loader = delivered
    for _ in range(20):
        next(loader)
    cell = Cell("cifar100_cnn", "pytorch", precision=precision)
    subject: Any = SimpleNamespace(cell=cell, team=None, spec=specification("cifar100_cnn"))
    evidence = Evidence(subject, lambda **message: None, whole=whole, replays=False)
    evidence.last(training, loader, batches(specification("cifar100_cnn"), BATCH))
    assert bool(evidence.replay) == whole
    return evidence.parts["last"]


def reference() -> Iterator[Any]:
    source = batches(specification("cifar100_cnn"), BATCH)
    return (source[number] for number in range(40))


def test_the_batch_after_the_last_window_is_the_reference_s() -> None:
    last = after_the_windows(reference(), Straight())
    assert (last.batch, last.equal) == (20, True)
    assert last.updates == {"a/kernel": 2.0, "b/bias": 4.0}
    assert after_the_windows(reference(), Straight(), "fp16").updates == {"a/kernel": 4.0, "b/bias": 8.0}


def test_a_launch_that_replays_nothing_takes_one_more_step() -> None:
    last = after_the_windows(reference(), Straight(), whole=False)
    assert (last.equal, last.updates, last.replayed) == (True, {"a/kernel": 1.0, "b/bias": 2.0}, None)
    assert after_the_windows(reference(), Straight("b/bias"), whole=False).updates["b/bias"] == 0


def test_what_is_timed_starts_from_the_reference_s_weights() -> None:
    evidence = Evidence(SimpleNamespace(), lambda **message: None)  # type: ignore[arg-type]
    training = Straight()
    evidence.digest_initial(training)
    assert evidence.parts["initial"] == weights_digest(training.weights())


def test_a_loader_that_lost_its_way_inside_the_windows_is_seen() -> None:
    source = batches(specification("cifar100_cnn"), BATCH)
    skipping = (source[number + (number > 7)] for number in range(40))
    assert not after_the_windows(skipping, Straight()).equal
    repeating = (source[number % source.per_epoch] for number in range(40))  # the first epoch, over and over
    assert not after_the_windows(repeating, Straight()).equal


def counted(batches: int, seed: int) -> CountingLoader:
    loader = CountingLoader(SimpleNamespace(settings={}, close=None), seed)
    loader.loader = iter(range(batches))
    assert list(loader) == [*range(batches)]
    return loader


def test_a_loader_that_lost_its_way_for_a_while_is_seen_at_one_of_the_positions_kept() -> None:
    source = batches(specification("cifar100_cnn"), BATCH)
    kept = counted(20, 0).kept
    wrong = max(kept)
    delivered = (source[number + (number == wrong)] for number in range(40))
    last = after_the_windows(delivered, Straight())
    assert (last.batch, last.equal) == (wrong, False)
    assert last.checked == (*sorted(kept), 20, 21)


def test_the_batches_after_the_windows_take_no_place_of_those_kept() -> None:
    seed = next(seed for seed in range(1000) if 20 in counted(21, seed).kept)
    last = after_the_windows(reference(), Straight(), seed=seed)
    assert last.checked == (*sorted(counted(20, seed).kept), 20, 21)


def test_each_batch_of_a_run_is_kept_with_the_same_probability() -> None:
    kept = [number for seed in range(500) for number in counted(1000, seed).kept]
    assert len(kept) == 500 * BATCHES_KEPT
    shares = np.histogram(kept, bins=5, range=(0, 1000))[0] / len(kept)
    assert shares == pytest.approx(0.2, abs=5 * (0.2 * 0.8 / len(kept)) ** 0.5)
    assert counted(3, 0).kept == {0: 0, 1: 1, 2: 2}


class Aging(Straight):
    """Moves by less where it is older than a state tells."""

    def __init__(self, lasts: int) -> None:
        super().__init__()
        self.lasts = lasts

    def step(self, batch: Any) -> float:
        self.lasts -= 1
        self.held = {name: array + (1.0 if self.lasts > 0 else 0.1) for name, array in self.held.items()}
        return 1.0


@pytest.mark.parametrize(("lasts", "off"), [(100, 0.0), (3, 0.9)])
def test_a_step_that_became_another_is_off_a_fresh_model_s(lasts: int, off: float) -> None:
    old = Aging(lasts)
    for number in range(5):
        old.step(number)
    found, again = Replay.of(old, [5, 6]).deviation(Aging(100), "cpu")
    assert found == pytest.approx(off)
    assert again == (0.0 if off else None)


@pytest.mark.parametrize("lasts", range(3, 12))
def test_a_fresh_model_that_becomes_another_one_as_it_replays_excuses_nothing(lasts: int) -> None:
    old = Aging(lasts)
    for number in range(lasts):
        old.step(number)
    found, again = Replay.of(old, [20, 21]).deviation(Aging(lasts), "cpu")
    assert (found, again) == (pytest.approx(0.9), 0.0)


class Scattering(Straight):
    """Never moves twice as far."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = np.random.default_rng(seed)

    def step(self, batch: Any) -> float:
        self.held = {name: array + 1 + 1e-6 * self.draw.random() for name, array in self.held.items()}
        return 1.0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_device_that_never_repeats_itself_is_allowed_as_much_as_it_differs(device: str) -> None:
    found, again = Replay.of(Scattering(0), [1, 2]).deviation(Scattering(1), device)
    assert 0 < found < 1e-6
    assert 0 < (again or 0) < 1e-6


def test_a_tensor_that_stays_after_the_last_window_is_seen() -> None:
    assert after_the_windows(reference(), Straight("a/kernel")).updates == {"a/kernel": 0.0, "b/bias": 4.0}
