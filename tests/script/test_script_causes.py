"""What holds a script's steps back beside its loader is named, and nothing else."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from suite import watch
from suite.analysis.bottlenecks.watched import advise, find_causes, find_loading
from suite.analysis.statistics.inference import Estimate
from suite.plan.measuring import Plan
from suite.script.observer import hooks
from suite.script.seen import Seen, Watched
from suite.watch import count_samples


def seen(threads_per_core: int = 1, **found: Any) -> Any:
    """A row of three launches in which this was seen, on two logical cores."""
    nothing = {"waits": 0.0, "lines": {}, "grows_bytes_per_s": 0.0, "ranks_own_s": [], "threads": 2, "workers": 0}
    settings = {"device": "cpu", "watched": nothing | found}
    train = SimpleNamespace(step_s=0.1)
    environment = {"machine": {"threads_per_core": threads_per_core}}
    record = SimpleNamespace(
        settings=settings, metrics={"host": {"cores": 2}}, phases={"train": train}, environment=environment
    )
    return SimpleNamespace(ok=[record] * 3, cell=SimpleNamespace(variant=""))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({}, ""), ({"waits": 0.4}, "40%"), ({"lines": {"a.py:3": 0.3}}, "a.py:3"), ({"threads": 1}, "OMP_NUM_THREADS"),
        ({"threads": 1, "threads_per_core": 2}, ""), ({"lines": {"a.py:3": 7.0}}, ""),
        ({"grows_bytes_per_s": 2.0 * 2**20}, "2 MiB/s"), ({"grows_bytes_per_s": 2.0 * 2**20, "grows_at_last": 9.0}, ""),
        ({"ranks_own_s": [0.01, 0.05]}, "rank 1"),
        ({"ranks_own_s": [0.01, 0.015]}, ""), ({"ranks_own_s": [0.08, 0.08], "ranks_busy_s": [0.07, 0.09]}, "rank 1"),
         ({"waits": 0.05, "lines": {"a.py:3": 0.05}}, ""),
    ],
)  # fmt: skip
def test_each_cause_is_named_and_nothing_else(found: dict[str, Any], named: str) -> None:
    said = " ".join(cause for _, cause in find_causes(seen(**found)))
    assert named in said
    assert bool(said) == bool(named)


@pytest.mark.parametrize(
    ("shares", "named"), [((0.0, 0.2, 0.2), False), ((0.04, 0.2, 0.2), True), ((0.04, 0.2), False), ((0.06, 0.2), True)]
)
def test_one_launch_of_several_may_show_little_of_a_cause(shares: tuple[float, ...], named: bool) -> None:
    row = seen()
    row.ok = [seen(lines={"a.py:3": each}).ok[0] for each in shares]
    assert bool(find_causes(row)) == named


def test_what_takes_most_of_a_step_comes_first() -> None:
    causes = find_causes(seen(waits=0.2, lines={"a.py:3": 0.3}, threads=1))
    assert [share for share, _ in causes] == pytest.approx([0.5, 0.3, 0.2])


@pytest.mark.parametrize(("loads", "share"), [((0.3, 0.5), 0.4), ((0.01, 0.5), 0.0), ((0.06, 0.07), 0.0)])
def test_loading_is_decided_by_looks_where_steps_without_it_do_not_decide(
    loads: tuple[float, float], share: float
) -> None:
    row = seen()
    row.ok = [seen(loads=each).ok[0] for each in loads]
    undecided, decided = Estimate(0.5, 0.0, 0.7, 3), Estimate(0.2, 0.1, 0.3, 3)
    assert find_loading(row, undecided) == pytest.approx(share)
    assert find_loading(row, decided) == 0.2
    assert find_loading(row, Estimate(0.0, -0.1, 0.02, 3)) == 0.0
    assert any("num_workers" in words for words in advise(row, "undecided", undecided)) == bool(share)


@pytest.mark.parametrize(
    ("device", "pinned", "told"),
    [("cuda", False, True), ("cuda", True, False), ("cuda", None, False), ("cpu", False, False)],
)
def test_batches_that_are_not_pinned_are_told_on_a_gpu(device: str, pinned: bool | None, told: bool) -> None:
    row = seen(pinned=pinned)
    for record in row.ok:
        record.settings |= {"device": device, "backend": "torch"}
    advice = advise(row, "poor overlap", Estimate(0.2, 0.1, 0.3, 3))
    assert any("pin_memory" in words for words in advice) == told


def test_ranks_are_told_apart_by_their_time_beside_the_backward_pass() -> None:
    of = Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None)
    for rank, backward, idle in ((0, 0.9, 0.2), (1, 0.2, 0.0)):
        window = {"window": [10, 1.0, 2.0, 0], "phase": "train", "backward": backward}
        of.take_rank(rank, window | {"idle": idle, "looked": 0.5})
    assert of._watched()["ranks_own_s"] == pytest.approx((0.01, 0.08))
    assert of._watched()["ranks_busy_s"] == pytest.approx((0.06, 0.1))
    assert not Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None)._watched()["ranks_own_s"]


@pytest.mark.parametrize(
    ("held", "grows", "at_last"),
    [
        ((10, 20, 30, 40), 10.0, 10.0), ((10, 20, 15, 30, 40, 50), 8.0, 10.0), ((10, 30, 20, 10), 0.0, -10.0),
        ((10, 20), 0.0, 0.0), ((5, 5, 5), 0.0, 0.0), ((10, 20, 30, 31, 31, 31), 4.0, 0.0), ((), 0.0, 0.0),
    ],
)  # fmt: skip
def test_memory_grows_where_it_does_so_between_most_windows(
    held: tuple[int, ...], grows: float, at_last: float
) -> None:
    found = Watched([*held], [*map(float, range(len(held)))]).growth()
    assert found == pytest.approx({"grows_bytes_per_s": grows, "grows_at_last": at_last}, abs=1.5)
    assert Watched([1, 2, 3], [1.0] * 3).growth()["grows_bytes_per_s"] == 0.0  # of windows that an own observer made up


def test_a_window_whose_batch_was_counted_before_it_makes_the_batch_no_smaller() -> None:
    of = Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None)
    for samples in (0, 64, 64):
        of.add(1, 1.0, 2.0, samples, lambda _: None)
    assert of.batch == 64


def test_steps_that_only_queue_end_a_window_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in JAX, which computes behind the loop: a window by the clock would hold all that is queued."""
    clock, queued, steps = [0.0], [0], list[int]()

    def fence() -> None:
        clock[0], queued[0] = clock[0] + 0.2 * queued[0], 0

    monkeypatch.setattr(watch.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(watch, "_fence", fence)
    observer = watch.Observer()
    monkeypatch.setattr(observer, "_say", lambda **said: steps.append(said["window"][0]) if "window" in said else None)
    for _ in range(600):
        clock[0], queued[0] = clock[0] + 0.001, queued[0] + 1
        observer.step("watch")
    assert steps[0] > 400
    assert set(steps[1:]) == {3}


def test_threads_are_those_of_the_last_window() -> None:
    of = Seen(Plan(0.1, 3, 2.0), 0.0, lambda _: None)
    for threads in (2, 1):
        of.take({"window": [1, 1.0, 2.0, 0], "phase": "train", "threads": threads}, lambda _: None)
    assert of._watched()["threads"] == 1


def test_a_wait_of_the_observer_for_the_steps_is_no_line_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)  # of another test; in JAX no line that calls is named
    looked: list[str] = []

    class Batch:
        @property
        def shape(self) -> tuple[int]:
            looked.append(hooks.own_line(sys._getframe().f_back))  # which counts the samples of a batch
            return (1,)

    assert count_samples(Batch()) == 1
    assert looked == [""]
    assert hooks.own_line(sys._getframe()).startswith("test_script_causes.py:")
    wrapper = compile("look()", "/tmp/torchinductor_me/ab/cab.py", "exec")  # which `torch.compile` wrote
    exec(wrapper, {"look": lambda: looked.append(hooks.own_line(sys._getframe(1)))})
    assert looked == ["", ""]


@pytest.mark.parametrize(
    ("place", "is_queued", "computes", "waits"),
    [
        ("hrtimer_nanosleep", False, True, True), ("hrtimer_nanosleep", True, True, False),
        ("hrtimer_nanosleep", True, False, True), ("0", False, False, False), ("futex_do_wait", False, True, False),
    ],
)  # fmt: skip
def test_a_step_waits_while_nothing_computes(
    place: str, is_queued: bool, computes: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_read", lambda _: place)
    monkeypatch.setattr(hooks, "_runs", lambda *_: computes)
    assert hooks._waits(-1, is_queued) == waits


def test_a_script_has_its_own_switch_interval_when_the_looks_end() -> None:
    before_s = sys.getswitchinterval()

    def train() -> None:
        hooks.Sampler().start()
        time.sleep(0.2)
        sys.setswitchinterval(0.003)
        time.sleep(0.2)

    try:
        (training := threading.Thread(target=train)).start()
        training.join()
        until_s = time.monotonic() + 30
        while sys.getswitchinterval() != pytest.approx(0.003) and time.monotonic() < until_s:
            time.sleep(0.02)
        assert sys.getswitchinterval() == pytest.approx(0.003)
    finally:
        sys.setswitchinterval(before_s)
