"""What sees a script's steps: `watch`, hooks, windows and pauses, without any framework."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite import watch as watching
from suite.script.observer import hooks
from suite.watch import Observer, count_samples, watch

ROOT = Path(__file__).parents[2]


class Batch:
    shape = (8, 3)


def test_nothing_is_wrapped_where_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(watching.SOCKET, raising=False)
    batches = [1, 2]
    assert watch(batches) is batches


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (Batch(), 8), ((Batch(), 1), 8), ([[Batch()], 2], 8), ({"x": Batch()}, 8), (["a", "b"], 2), (None, 0), (3, 0),
        ([], 0), (SimpleNamespace(shape=()), 0),
    ],
)  # fmt: skip
def test_samples_are_the_length_of_the_first_array(batch: object, samples: int) -> None:
    assert count_samples(batch) == samples


@pytest.mark.parametrize(("backends", "asked"), [({}, []), ({"gpu": 1}, ["gpu"])])
def test_jax_is_not_asked_for_a_device_before_it_computes(
    monkeypatch: pytest.MonkeyPatch, backends: dict[str, int], asked: list[str]
) -> None:
    said: list[str] = []
    jax = SimpleNamespace(default_backend=lambda: said.append("gpu") or "gpu")
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", SimpleNamespace(_backends=backends))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # whose loader a script in JAX may have
    assert watching._device() == ("cuda" if asked else "cpu")
    assert said == asked


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of the process that measures."""
    monkeypatch.setenv(watching.SOCKET, str(tmp_path / "w"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listens:
        listens.bind(str(tmp_path / "w"))
        listens.listen()
        yield listens


@pytest.fixture
def told(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Observer, list[float], socket.socket]]:
    """An observer, the clock that it reads, and the other end of its socket."""
    clock = [0.0]
    monkeypatch.setattr(watching.time, "perf_counter", lambda: clock[0])
    observer = Observer()
    observer.step("optimizer")
    pipe, _ = listening.accept()
    with pipe:
        yield observer, clock, pipe
        assert observer._pipe
        observer._pipe.close()


def messages(pipe: socket.socket) -> list[dict[str, Any]]:
    found = []
    with contextlib.suppress(BlockingIOError):
        while message := pipe.recv(1 << 16, socket.MSG_DONTWAIT):
            found.append(json.loads(message))
    return found


def run(observer: Observer, clock: list[float], steps: int, step_s: float) -> None:
    for _ in range(steps):
        clock[0] += step_s
        observer.step("optimizer")


def test_a_window_ends_with_the_first_step_after_its_time(told: tuple[Observer, list[float], socket.socket]) -> None:
    observer, clock, pipe = told
    run(observer, clock, 9, 0.125)
    hello, *windows = messages(pipe)
    assert hello["hello"] == os.getpid()
    assert [each["window"][0] for each in windows] == [4, 4]
    assert windows[0]["window"][1:3] == pytest.approx([0.0, 0.5])


def test_a_pause_is_counted_and_part_of_no_window(told: tuple[Observer, list[float], socket.socket]) -> None:
    observer, clock, pipe = told
    run(observer, clock, 6, 0.125)
    run(observer, clock, 1, 30.0)
    run(observer, clock, 4, 0.125)
    windows = messages(pipe)[1:]
    assert [each["window"][2] - each["window"][1] for each in windows] == pytest.approx([0.5, 0.5])
    assert windows[-1]["pauses"] == [1, 30.0]


def test_keras_that_only_tensorboard_imports_is_no_backend(
    told: tuple[Observer, list[float], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(config=SimpleNamespace(backend=lambda: "tensorflow")))
    run(told[0], told[1], 1, 0.125)
    assert messages(told[2])[0]["backend"] == "torch"


def test_steps_of_another_source_are_not_counted_twice(told: tuple[Observer, list[float], socket.socket]) -> None:
    observer, _, _ = told
    observer.step("keras")
    assert observer.steps == 0


def test_a_framework_imported_late_is_told_and_the_observation_goes_on(
    told: tuple[Observer, list[float], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    observer, clock, pipe = told
    monkeypatch.setitem(sys.modules, "optax", SimpleNamespace(__version__="0.0.7"))
    observer.tell_packages()
    run(observer, clock, 4, 0.125)
    _, late, window = messages(pipe)
    assert late["packages"]["optax"] == "0.0.7"
    assert window["window"][0] == 4


def test_a_framework_imported_before_the_first_step_ends_its_own_connection(listening: socket.socket) -> None:
    Observer().tell_packages()
    pipe, _ = listening.accept()
    with pipe:
        assert [[*each] for each in messages(pipe)] == [["packages"]]
        assert pipe.recv(1) == b""


def test_one_who_does_not_listen_holds_no_script_and_what_he_missed_is_counted(
    told: tuple[Observer, list[float], socket.socket],
) -> None:
    observer, clock, pipe = told
    for _ in range(1000):  # more than a socket holds
        run(observer, clock, 4, 0.125)
    held = messages(pipe)
    run(observer, clock, 4, 0.125)
    (last,) = messages(pipe)
    assert last["dropped"] == 1001 - (len(held) - 1) - 1


def test_the_norm_of_the_weights_is_told_outside_of_a_window(
    told: tuple[Observer, list[float], socket.socket],
) -> None:
    observer, clock, pipe = told
    run(observer, clock, 3, 0.125)

    def takes_long() -> float:
        clock[0] += 5.0
        return 2.5

    observer.tell_norm(takes_long)
    observer.tell_norm(lambda: 1 / 0)
    run(observer, clock, 4, 0.125)
    _, norm, window = messages(pipe)
    assert norm == {"norm": 2.5}
    assert window["window"][:1] == [4]


@pytest.mark.parametrize("went", [["begun", "written"], ["begun", "it failed"], ["it failed"]])
def test_one_window_is_profiled_after_one_that_is_not(
    told: tuple[Observer, list[float], socket.socket], went: list[str]
) -> None:
    observer, clock, pipe = told
    left = iter(went)
    observer.profiler = SimpleNamespace(turn=lambda _: next(left), begin_steps=lambda: None)
    pipe.send(b"profile")
    run(observer, clock, 13, 0.125)
    windows = [(each["phase"], each["window"][0], each["profile"]) for each in messages(pipe)[1:]]
    profiled = [("profile", 2, each) for each in went]
    assert windows[: len(went) + 2] == [("train", 4, None), *profiled, ("train", 4, None)]


@pytest.mark.parametrize("value", ["", "first", "-1"])
def test_a_variable_of_another_meaning_does_not_end_the_training(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, value)
    observer = Observer()
    observer.step("optimizer")
    pipe, _ = listening.accept()
    with pipe:
        (hello,) = messages(pipe)
        assert (hello["rank"], hello["world"]) == (0, 1)
    assert observer._pipe
    observer._pipe.close()


def test_the_phase_that_is_asked_for_follows(told: tuple[Observer, list[float], socket.socket]) -> None:
    observer, clock, pipe = told
    pipe.sendall(b"compute\n")
    run(observer, clock, 4, 0.125)
    assert observer.mode == watching.COMPUTE


def test_batches_of_keras_are_steps(told: tuple[Observer, list[float], socket.socket]) -> None:
    seen: list[int] = []

    class Callback:
        def __init__(self, **functions: Callable[..., None]) -> None:
            vars(self).update(functions)

    class Model:
        def fit(self, x: object, callbacks: list[Callback], **_: object) -> None:
            for callback in callbacks:  # as Keras calls them
                vars(callback)["on_epoch_begin"](0, {})
                for batch in range(3):
                    vars(callback)["on_train_batch_end"](batch, logs={"loss": 1.0})

        def train_on_batch(self, x: object) -> None:
            seen.append(count_samples(x))

    keras = SimpleNamespace(Model=Model, callbacks=SimpleNamespace(LambdaCallback=Callback))
    observer, *_ = told
    observer.source = "keras"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hooks, "OBSERVER", observer)
        hooks.HOOKS["keras"](keras)
        Model().fit(Batch(), batch_size=4)  # type: ignore[call-arg]
        Model().train_on_batch(Batch())
    assert (observer.steps, observer.samples, seen) == (4, 3 * 4 + 8, [8])


def test_an_own_sitecustomize_still_runs_and_no_framework_is_imported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.was_here = True", encoding="utf-8")
    path = os.pathsep.join([str(ROOT / "suite" / "script" / "observer"), str(tmp_path)])
    code = "import sys; print(was_here, 'suite_watch' in sys.modules, {'torch', 'jax', 'numpy'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "set()"]


def test_a_watched_loader_can_be_gone_through_again_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(watching.SOCKET, "/nowhere")
    monkeypatch.setattr(watching, "OBSERVER", Observer())
    loader: Any = watch([[1, 2], [3, 4]])
    assert watch(loader) is loader  # so that a batch is one step
    assert [list(loader), list(loader)] == [[[1, 2], [3, 4]]] * 2
    assert len(loader) == 2
    assert loader.index([3, 4]) == 1


def test_a_generator_that_has_ended_ends_while_the_loader_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(watching.SOCKET, "/nowhere")
    observer = Observer()
    monkeypatch.setattr(watching, "OBSERVER", observer)
    given = []
    for batch in watch(iter("abcd")):
        given.append(batch)
        observer.mode = watching.INPUT
    assert given == ["a"]


def test_training_goes_on_after_the_loader_ran_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(watching.SOCKET, "/nowhere")
    observer = Observer()
    monkeypatch.setattr(watching, "OBSERVER", observer)
    monkeypatch.setattr(observer, "step", lambda _: setattr(observer, "mode", watching.TRAIN))
    given = []
    for batch in watch(["ab", "cd"]):
        given.append(batch)
        observer.mode = watching.INPUT
    assert given == ["ab", "cd"]


def test_a_batch_that_cannot_be_counted_does_not_end_the_training() -> None:
    assert count_samples(SimpleNamespace(shape=lambda: 3)) == 0


def test_batches_that_no_step_follows_are_not_repeated_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer()
    observer.mode = watching.COMPUTE
    monkeypatch.setattr(watching, "OBSERVER", observer)
    given = [*watching.serve(lambda: iter("abc"), lambda _: None)]
    assert len(given) <= 3 + watching.IDLE + 1
    assert given[-2:] == ["b", "c"]
