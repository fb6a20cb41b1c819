"""What sees the steps of a training script while ``training-suite script`` measures it; inert everywhere else.

    from suite.watch import watch
    for batch in watch(loader): ...

The loop above is needed only where nothing is seen by itself: optimizers of PyTorch and `fit` and `train_on_batch` of
Keras are seen without it. It needs the standard library alone, and does nothing in processes that do not train.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle, takewhile
from typing import Any, TypeVar, cast

Batch = TypeVar("Batch")

#: Names the socket of the process that measures, and the least seconds of a window.
SOCKET, WINDOW, WATCH = "SUITE_WATCH_SOCKET", "SUITE_WATCH_WINDOW", "watch"
#: A step that takes longer than this, and than so many others, is a pause (an evaluation, a checkpoint, a new epoch).
PAUSE_S, PAUSE_STEPS = 0.5, 10.0
#: What a window is of: training as it is, with its first batches again and again, the loader alone, or to be profiled.
TRAIN, COMPUTE, INPUT, PROFILE = "train", "compute", "input", "profile"
#: Batches that are repeated, and repeats that no step follows; more accumulate for no step.
HELD, IDLE = 4, 256
#: After so many steps the norm of the weights is told; so many seconds has a window to be profiled.
NORM_STEPS, PROFILED_S = 10, 0.25
#: The distributions whose versions are told, by the module that shows that they are in use.
VERSIONS = ("torch", "tensorflow", "jax", "keras", "flax", "optax", "lightning", "transformers", "accelerate", "numpy")


def watch(batches: Iterable[Batch]) -> Iterable[Batch]:
    """The same batches, of which each is one step of training; the very object where nothing is measured."""
    return batches if SOCKET not in os.environ or isinstance(batches, _Watched) else _Watched(batches)


class _Watched:
    """Stands for a loader whose batches are counted; it can be gone through as often, and has all that it has."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return _count(self._batches)

    def __next__(self) -> Any:
        self._given = vars(self).get("_given") or iter(self)
        return next(self._given)

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_batches"], name)


def _count(batches: Iterable[Batch]) -> Iterator[Batch]:
    OBSERVER.source = WATCH
    OBSERVER.workers, OBSERVER.pinned = getattr(batches, "num_workers", -1), getattr(batches, "pin_memory", None)

    def after(batch: Batch) -> None:
        OBSERVER.samples += count_samples(batch)
        OBSERVER.step(WATCH)

    return serve(batches.__iter__, after)


def serve(iterate: Callable[[], Iterator[Batch]], after: Callable[[Batch], None]) -> Iterator[Batch]:
    """The batches of a loader, of which each is followed by ``after``; once asked, the first ones again and again.

    Asked for the loader alone, it goes through the loader and gives nothing any more.
    """
    held: list[Batch] = []
    idle = 0  # repeats that no step has followed, as in an evaluation
    for batch in iterate():
        held += [batch] * (len(held) < HELD)
        yield batch
        after(batch)
        for again in takewhile(lambda _: OBSERVER.mode == COMPUTE, cycle(held)):
            if idle > IDLE:
                break
            before = OBSERVER.counted
            yield again
            after(again)
            idle = 0 if OBSERVER.counted > before else idle + 1
        while OBSERVER.mode == INPUT and _load(iterate):
            pass


def _load(iterate: Callable[[], Iterator[Any]]) -> bool:
    """Go through the loader while it is asked for alone; whether there was a batch: a generator may have ended."""
    given = False
    for loaded in iterate():
        given = True
        OBSERVER.samples += count_samples(loaded)
        OBSERVER.step(OBSERVER.source)
        if OBSERVER.mode != INPUT:
            break
    return given


def count_samples(batch: Any) -> int:
    """The samples of a batch: the length of the first array in it; 0 where there is none."""
    with suppress(Exception):  # of a reader's own class, which training goes on with
        return _count_samples(batch)
    return 0


def _count_samples(batch: Any) -> int:
    for _ in range(8):
        if shape := getattr(batch, "shape", None):
            return int(shape[0])
        if hasattr(batch, "values") and callable(batch.values):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            if isinstance(batch[0], (int, float, str, bytes)):
                return len(batch)
            batch = batch[0]
        else:
            return 0
    return 0


class Observer:
    """Counts steps, and tells of each window of at least ``window_s`` seconds, from one fence to the next."""

    def __init__(self) -> None:
        self.window_s = float(os.environ.get(WINDOW) or 0.5)
        self.source = ""  # what counts the steps: an optimizer, Keras, or `watch`, which goes before the others
        self.samples = self.steps = self.counted = 0  # the last one of all calls of `step`
        self.mode, self.pauses, self.paused_s, self.backend = TRAIN, 0, 0.0, ""
        self.workers: int | None = None  # of a loader whose batches can be repeated, and which can run alone
        self.pinned: bool | None = None  # whether it pins them
        self.backward_s = 0.0  # in which the ranks wait for each other
        self.sampler = self.profiler = cast("Any", None)
        self.dropped = 0  # messages that nobody took
        self._begin_s, self._last_s, self._pid = 0.0, 0.0, 0
        self._mean_s, self._is_ahead = float("inf"), False  # of a step; of steps that only queue, a window counts them
        self._pipe: socket.socket | None = None

    def step(self, source: str, steps: int = 1) -> None:
        """Count steps that have ended."""
        now_s, self.counted = time.perf_counter(), self.counted + 1
        if self._pid != os.getpid():
            self._begin(source)
        elif source != self.source:
            return
        elif now_s - self._last_s > max(PAUSE_S, PAUSE_STEPS * self._mean_s):
            self.pauses += 1
            self.paused_s += now_s - self._last_s
            self._start_window()
        else:
            self.steps, self._last_s = self.steps + steps, now_s
            spent_s = max(now_s - self._begin_s, self.steps * self._mean_s if self._is_ahead else 0.0)
            if spent_s >= (PROFILED_S if self.mode == PROFILE else self.window_s):
                self._end_window()

    def _begin(self, source: str) -> None:
        """The first step of this process: tell who it is."""
        self._pid, self.source = os.getpid(), self.source or source
        self._connect()
        _fence()
        self.backend = _backend(source)
        self._say(
            hello=self._pid, rank=_number("RANK", 0), world=_number("WORLD_SIZE", 1), source=self.source,
            backend=self.backend, packages=_versions(), python=platform.python_version(), at=time.perf_counter(),
            device=_device(), loader=self.workers is not None, workers=self.workers, pinned=self.pinned,
            profiles=bool(self.profiler),
        )  # fmt: skip
        self.sampler = self.sampler and self.sampler.start()
        self._start_window()

    def _connect(self) -> None:
        self._pipe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # so that a message is sent whole or not
        self._pipe.setblocking(False)
        try:
            self._pipe.connect(os.environ[SOCKET])
        except (KeyError, OSError):
            self._pipe.close()
            self._pipe = None

    def tell_packages(self) -> None:
        """Tell which frameworks this process has imported: where nothing else is seen of it, they are known."""
        is_known = self._pid == os.getpid()  # then what is imported late is only added, and the observation goes on
        if not is_known:
            self._connect()
        self._say(packages=_versions())
        if self._pipe and not is_known:
            self._pipe.close()
            self._pipe = None

    def _start_window(self) -> None:
        self.steps, self.samples, self.backward_s = 0, 0, 0.0
        _ = self.sampler and self.sampler.take()  # what was seen of a pause
        if self.mode == PROFILE:
            self.profiler.begin_steps()
        self._begin_s = self._last_s = time.perf_counter()

    def _end_window(self) -> None:
        queued_s = time.perf_counter()
        _fence()
        end_s, pauses = time.perf_counter(), [self.pauses, round(self.paused_s, 3)]
        self._mean_s, self._is_ahead = (end_s - self._begin_s) / self.steps, end_s - queued_s > queued_s - self._begin_s
        window = [self.steps, self._begin_s, end_s, self.samples]
        profile = self.profiler.turn(f"{os.environ[SOCKET]}.json") if self.mode == PROFILE else None
        self._say(
            window=window, phase=self.mode, pauses=pauses, rss=_memory("VmHWM"), held=_memory("RssAnon"),
            device=_device(), threads=_threads(), backward=self.backward_s, dropped=self.dropped,
            profile=profile, **(self.sampler.take() if self.sampler else {}),
        )  # fmt: skip
        self.mode = self.mode if profile in (None, "begun") else TRAIN
        self._obey()
        self._start_window()

    def _obey(self) -> None:
        """Go on to the phase that is asked for, if one is."""
        try:
            asked = self._pipe.recv(64, socket.MSG_DONTWAIT).decode().split() if self._pipe else []
        except OSError:
            return
        if asked:
            self.mode, self._mean_s, self._is_ahead = asked[-1], float("inf"), False

    def tell_norm(self, norm: Callable[[], float]) -> None:
        """Tell the norm of the weights; the window begins anew, so that this is no part of it."""
        with suppress(Exception):  # of weights that are of some other kind
            self._say(norm=norm())
        self._start_window()

    def _say(self, **message: Any) -> None:
        if self._pipe:
            try:
                self._pipe.send(json.dumps(message, default=lambda _: None).encode())
            except BlockingIOError:  # who listens has no time, as one that is stopped: the script does not wait for it
                self.dropped += 1
            except OSError:  # nobody listens any more
                self._pipe = None


OBSERVER = Observer()


def _number(variable: str, otherwise: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise


def _memory(name: str) -> int:
    """Memory of this process, in bytes: the most that it held, or what it has now; 0 where Linux does not say it."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as lines:  # noqa: PTH123
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)
    return 0


def _versions() -> dict[str, str]:
    modules = {name: sys.modules[name] for name in VERSIONS if name in sys.modules}
    return {name: str(module.__version__) for name, module in modules.items() if hasattr(module, "__version__")}


def _backend(source: str) -> str:
    """What trains where others are imported beside it: JAX if it computes, else the framework under Keras."""
    config = getattr(sys.modules.get("keras"), "config", None)
    under = str(config.backend()) if config else ""
    return "torch" if source == "optimizer" else "jax" if _jax() and source != "keras" else under


def _threads() -> int:
    """Threads that PyTorch computes with; 0 where it is not in use."""
    return int(getattr(sys.modules.get("torch"), "get_num_threads", int)())


def _device() -> str:
    return "cuda" if _cuda() or getattr(_jax(), "default_backend", str)() == "gpu" else "cpu"


def _cuda() -> Any:
    """PyTorch's module for GPUs, where it is in use."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda and cuda.is_initialized() else None


def _jax() -> Any:
    """JAX where it computes: TensorFlow imports it too, and asking it for a device would take a GPU's memory."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return sys.modules.get("jax") if getattr(bridge, "_backends", None) else None


def _fence() -> None:
    """Wait for the device; what a framework's own queue holds on a CPU ends with its window or the next."""
    if cuda := _cuda():
        cuda.synchronize()
    elif jax := _jax():
        (jax.numpy.zeros(()) + 1).block_until_ready()  # devices do what they were given in order
