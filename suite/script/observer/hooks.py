"""What is done in a script once a module of a framework has been imported, so that `suite.watch` sees its steps."""

from __future__ import annotations

import math
import opcode
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from types import FrameType
from typing import Any

from suite.script.observer.profilers import Profiler
from suite.watch import NORM_STEPS, OBSERVER, VERSIONS, WATCH, _device, _jax, count_samples, serve

#: The mean between two looks at where a script is, and how long it must be idle to count as idle, in seconds.
LOOK_S, PROBE_S = 0.06, 0.001
GOLDEN = 0.618  # spreads the times of looks evenly, so that they do not fall into step with what a script repeats
#: After so long a look takes the interpreter: with Python's usual 5 ms it would come when a framework gives it up, and
#: never in a short piece of Python. One that is later than that and a timer's slack waited for the thread that trains.
SWITCH_S, HELD_S = 0.0002, 0.00025
OURS = (__file__, serve.__code__.co_filename)
#: Where other threads of Python are that hold no interpreter.
WAITING = ("/threading.py", "/thread.py", "/queue.py", "/selectors.py", "/connection.py")


class Sampler:
    """Looks where the thread that trains is, and adds up the seconds: in the reader's lines, in its loader, idle."""

    def __init__(self) -> None:
        self.times: Any = Counter()
        self.lines: Any = Counter()
        self._thread = self._native = 0
        self._wait = -1  # the kernel's file of what the thread waits for
        self._device = "cpu"  # asked once a window, as each look takes a core from the steps

    def start(self) -> Sampler:
        """Begin to look at the thread that calls this."""
        self._thread, self._native = threading.get_ident(), threading.get_native_id()
        self._wait = _open(f"/proc/self/task/{self._native}/wchan")
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def take(self) -> dict[str, Any]:
        """The seconds since the last call, and the lines with the most."""
        self._device = _device()
        times, lines = self.times, self.lines
        self.times, self.lines = Counter(), Counter()
        return {**times, "lines": dict(Counter(dict(lines)).most_common(5))}  # a copy: the thread goes on

    def _look(self) -> None:
        usual_s = set_s = sys.getswitchinterval()
        os.register_at_fork(after_in_child=lambda: sys.setswitchinterval(usual_s))
        core = _open(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        last_s, core_s = time.perf_counter(), _waited_for_core_s(core)
        for number in count():
            sleep_s, begin_s, before_s = LOOK_S * (0.5 + number * GOLDEN % 1), time.perf_counter(), core_s
            time.sleep(sleep_s)
            now_s, core_s = time.perf_counter(), _waited_for_core_s(core)
            limit_s = HELD_S if self._device == "cpu" else 2 * HELD_S  # there a thread stands at one line for long
            is_late = now_s - begin_s - sleep_s - (core_s - before_s) > limit_s
            frames = sys._current_frames()
            if not (frame := frames.pop(self._thread, None)):
                break
            is_alone, now_set_s = _is_alone(frames), sys.getswitchinterval()
            usual_s = usual_s if now_set_s == set_s else now_set_s  # which the script has set itself meanwhile
            sys.setswitchinterval(SWITCH_S if is_alone else usual_s)  # where no other thread takes turns with it
            set_s = sys.getswitchinterval()
            self._count(frame, now_s - last_s, is_late and is_alone)
            del frame, frames  # which hold a reader's tensors
            last_s = now_s
        sys.setswitchinterval(usual_s)

    def _count(self, frame: FrameType, seconds: float, is_held: bool) -> None:
        """Add the seconds since the last look to where the thread is: held up, it was there all the time."""
        self.times["looked"] += seconds
        line, on_cpu = own_line(frame), self._device == "cpu"
        is_queued = not on_cpu or bool(_jax())
        if is_loading(frame):
            if on_cpu and not (is_queued and _runs(self._native)):  # else what is queued goes on meanwhile
                self.times["loads"] += seconds
        elif line and (is_held or not _may_compute(frame)):
            self.lines[line] += seconds
        elif on_cpu and _waits(self._wait, is_queued):
            where, name = (self.lines, line) if line else (self.times, "idle")
            where[name] += seconds


def own_line(frame: FrameType | None) -> str:
    """The line of the reader's own that runs, as file:line; empty inside of a framework."""
    while frame:
        file = frame.f_code.co_filename
        if _is_foreign(file):
            return ""
        if _is_own(file):
            return f"{file.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def is_loading(frame: FrameType | None) -> bool:
    """Whether the loader that is watched has been asked for a batch."""
    while frame and frame.f_code.co_filename not in OURS:
        frame = frame.f_back
    return frame is not None and frame.f_code is serve.__code__


@cache
def _is_foreign(file: str) -> bool:
    compiled = "torchinductor_" in file or file.startswith(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or "\0")
    return compiled or file in OURS or any(f"-packages/{name}/" in file for name in VERSIONS if name != "numpy")


@cache
def _is_own(file: str) -> bool:
    return "/lib/python" not in file and not file.startswith("<")


def _may_compute(frame: FrameType) -> bool:
    """Whether it calls what is no Python, which may be an operation of a framework unless Python's own library does."""
    between = opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("JUMP", "RESUME", "FOR"))
    return not between and (_is_own(frame.f_code.co_filename) or "-packages/" in frame.f_code.co_filename)


def _is_alone(others: Mapping[int, FrameType]) -> bool:
    """Whether the other threads of Python, but for this one, wait."""
    own = threading.get_ident()
    return all(at == own or each.f_code.co_filename.endswith(WAITING) for at, each in others.items())


def _waits(wait: int, is_queued: bool) -> bool:
    """Whether a thread waits for something else than what this process computes; by where it does in the kernel."""
    place = _read(wait)
    if place in ("", "0"):
        return False
    if not place.startswith("futex"):  # it sleeps, or waits for a file, a socket, or a child
        return not (is_queued and _runs())
    begin_s = time.process_time()
    time.sleep(PROBE_S)
    return time.process_time() - begin_s < PROBE_S / 4 and not _runs()


def _runs(except_for: int = 0) -> bool:
    """Whether a thread of this process runs or waits for a core, but for this one and another."""
    own = {str(threading.get_native_id()), str(except_for)}
    return any(_state(each) == "R" for each in os.listdir("/proc/self/task") if each not in own)  # noqa: PTH208


def _state(thread: str) -> str:
    file = _open(f"/proc/self/task/{thread}/stat")
    try:
        return _read(file).rpartition(")")[2][1:2]
    finally:
        if file >= 0:
            os.close(file)


def _waited_for_core_s(core: int) -> float:
    """Seconds in which this thread waited for a core; infinite where Linux does not say it."""
    with suppress(LookupError, ValueError):
        return int(_read(core).split()[1]) / 1e9
    return float("inf")


def _open(path: str) -> int:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return -1


def _read(file: int) -> str:
    """What a file of the kernel's says by now; empty where it says nothing."""
    with suppress(OSError):
        return os.pread(file, 1 << 12, 0).decode(errors="replace")
    return ""


def _on_torch_optimizer(module: Any) -> None:
    first: list[int] = []
    steps = count(1)

    def after_step(optimizer: Any, *_: Any) -> None:
        first[:] = first or [id(optimizer)]
        if id(optimizer) != first[0]:  # of several, as of a GAN, the first one counts
            return
        OBSERVER.step("optimizer")
        if next(steps) == NORM_STEPS:
            OBSERVER.tell_norm(lambda: norm(each for group in optimizer.param_groups for each in group["params"]))

    def norm(weights: Iterable[Any]) -> float:
        return math.sqrt(sum(each.detach().double().norm().item() ** 2 for each in weights))

    module.register_optimizer_step_post_hook(after_step)


def _on_torch_autograd(module: Any) -> None:
    backward = module.backward

    def timed(*arguments: Any, **options: Any) -> None:
        begin_s = time.perf_counter()
        backward(*arguments, **options)
        OBSERVER.backward_s += time.perf_counter() - begin_s

    module.backward = timed


def _on_torch_loader(module: Any) -> None:
    iterate: Callable[[Any], Iterator[Any]] = module.DataLoader.__iter__

    def after(batch: Any) -> None:
        if OBSERVER.source != WATCH:
            OBSERVER.samples += count_samples(batch)

    def counting(loader: Any) -> Iterator[Any]:
        OBSERVER.workers, OBSERVER.pinned = loader.num_workers, loader.pin_memory
        return iterate(loader) if OBSERVER.source == WATCH else serve(lambda: iterate(loader), after)

    module.DataLoader.__iter__ = counting


def _on_keras(module: Any) -> None:
    fit, train_on_batch = module.Model.fit, module.Model.train_on_batch
    all_steps = [0]

    def count_steps(model_of: Callable[[], Any], steps: int) -> None:
        before = all_steps[0]
        all_steps[0] += steps
        OBSERVER.step("keras", steps)
        if before < NORM_STEPS <= all_steps[0]:
            OBSERVER.tell_norm(
                lambda: float(sum((each.astype(float) ** 2).sum() for each in model_of().get_weights())) ** 0.5
            )

    def watched_fit(model: Any, *arguments: Any, **options: Any) -> Any:
        chosen = options.get("callbacks") or []
        chosen = list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
        size = options.get("batch_size") or (count_samples(arguments[0]) and 32 if arguments else 0)
        last = [-1]

        def after_batch(batch: int, *_: Any, **__: Any) -> None:
            steps = batch - last[0] if batch > last[0] else 1
            last[0] = batch
            OBSERVER.samples += steps * int(size or 0)
            count_steps(lambda: observing.model, steps)  # which a callback has as it is by now, on JAX as well

        def begin_epoch(*_: Any, **__: Any) -> None:
            last[0] = -1

        observing = module.callbacks.LambdaCallback(on_epoch_begin=begin_epoch, on_train_batch_end=after_batch)
        return fit(model, *arguments, **options | {"callbacks": [*chosen, observing]})

    def watched_batch(model: Any, x: Any, *arguments: Any, **options: Any) -> Any:
        result = train_on_batch(model, x, *arguments, **options)
        OBSERVER.samples += count_samples(x)
        count_steps(lambda: model, 1)
        return result

    module.Model.fit, module.Model.train_on_batch = watched_fit, watched_batch


#: What is done once a module of a framework has been imported.
HOOKS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(("torch", "tensorflow", "jax"), lambda _: OBSERVER.tell_packages()),
    "torch.autograd": _on_torch_autograd,
    "torch.optim.optimizer": _on_torch_optimizer,
    "torch.utils.data.dataloader": _on_torch_loader,
    "keras": _on_keras,
}


OBSERVER.sampler, OBSERVER.profiler = Sampler(), Profiler()
