"""What is done in a script once a module of a framework has been imported, so that `suite.watch` sees its steps."""

from __future__ import annotations

import opcode
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from suite.watch import OBSERVER, VERSIONS, WATCH, _device, count_samples, serve

#: Between two looks at where a script is, in seconds.
LOOK_S = 0.02
OURS = (__file__, serve.__code__.co_filename)  # whose fence waits for the steps


class Sampler:
    """Looks where the thread that trains is, and counts the lines of the reader's own that run."""

    def __init__(self) -> None:
        self.looks, self.lines = 0, Counter[str]()

    def start(self) -> Sampler:
        """Begin to look at the thread that calls this."""
        threading.Thread(target=self._look, args=(threading.get_ident(),), daemon=True).start()
        return self

    def _look(self, thread: int) -> None:
        while frame := sys._current_frames().get(thread):
            self.looks += 1
            if line := own_line(frame):
                self.lines[line] += 1
            del frame  # which holds a reader's tensors
            time.sleep(LOOK_S)

    def take(self) -> dict[str, Any]:
        """The looks since the last call, and the lines with the most."""
        looks, lines = self.looks, self.lines
        self.looks, self.lines = 0, Counter[str]()
        return {"looks": looks, "lines": dict(Counter(dict(lines)).most_common(5))}  # a copy: the thread goes on


def own_line(frame: FrameType | None) -> str:
    """The line of the reader's own that runs, as file:line; empty inside of a framework, and of a model's steps."""
    inner, at, place = frame, frame, ""
    # A call of a line may wait for what the framework has in its queue.
    is_queued = ("jax" in sys.modules and "torch" not in sys.modules) or _device() == "cuda"
    while frame:
        file = frame.f_code.co_filename
        if not place and (file in OURS or any(f"-packages/{name}/" in file for name in VERSIONS if name != "numpy")):
            return ""
        if not place and "/lib/python" not in file and not file.startswith("<"):
            at, place = frame, f"{file.rpartition('/')[2]}:{frame.f_lineno}"
        is_computing = is_queued or file.endswith("/torch/nn/modules/module.py")
        if place and is_computing and at and at is inner and not _is_python(at):
            return ""
        frame = frame.f_back
    return place


def _is_python(frame: FrameType) -> bool:
    """Whether it is between calls: what a call computes may be the framework's."""
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("JUMP", "RESUME", "FOR"))


def _on_torch_optimizer(module: Any) -> None:
    counted: list[int] = []

    def after_step(optimizer: Any, *_: Any) -> None:
        counted[:] = counted or [id(optimizer)]
        if id(optimizer) == counted[0]:  # of several, as of a GAN, the first one counts
            OBSERVER.step("optimizer")

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
        OBSERVER.workers = loader.num_workers
        return iterate(loader) if OBSERVER.source == WATCH else serve(lambda: iterate(loader), after)

    module.DataLoader.__iter__ = counting


def _on_keras(module: Any) -> None:
    fit, train_on_batch = module.Model.fit, module.Model.train_on_batch

    def watched_fit(model: Any, *arguments: Any, **options: Any) -> Any:
        chosen = options.get("callbacks") or []
        chosen = list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
        size = options.get("batch_size") or (count_samples(arguments[0]) and 32 if arguments else 0)
        last = [-1]

        def after_batch(batch: int, *_: Any, **__: Any) -> None:
            steps = batch - last[0] if batch > last[0] else 1
            last[0] = batch
            OBSERVER.samples += steps * int(size or 0)
            OBSERVER.step("keras", steps)

        def begin_epoch(*_: Any, **__: Any) -> None:
            last[0] = -1

        observing = module.callbacks.LambdaCallback(on_epoch_begin=begin_epoch, on_train_batch_end=after_batch)
        return fit(model, *arguments, **options | {"callbacks": [*chosen, observing]})

    def watched_batch(model: Any, x: Any, *arguments: Any, **options: Any) -> Any:
        result = train_on_batch(model, x, *arguments, **options)
        OBSERVER.samples += count_samples(x)
        OBSERVER.step("keras")
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


OBSERVER.sampler = Sampler()
