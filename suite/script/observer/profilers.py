"""The profilers of PyTorch and of JAX in a script that is measured: what they see of the steps between two turns."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from suite.watch import OBSERVER, SOCKET, _jax

#: The name of the profiled steps, and how JAX calls the end of an instruction that ran on after its call.
STEPS, ENDED = "suite: steps", "end: "


class Profiler:
    """The profiler of the framework that trains, if it has one that is known here."""

    def __init__(self) -> None:
        self._end: Callable[[str], None] | None = None

    def __bool__(self) -> bool:
        return _begin() is not None

    def turn(self, path: str) -> str:
        """Begin, or end and write what was seen; how that went."""
        try:
            if self._end:
                self._end(path)
                return "written"
            self._end = (_begin() or _begin_torch)()
        except Exception as error:  # of a script that profiles itself, for one: training goes on
            return f"{error!r:.200}"
        return "begun"


def _begin() -> Callable[[], Callable[[str], None]] | None:
    if OBSERVER.source != "optimizer" and _jax():
        return _begin_jax
    return _begin_torch if "torch.optim.optimizer" in sys.modules else None


def _begin_torch() -> Callable[[str], None]:
    profiler = sys.modules["torch"].profiler
    running, steps = profiler.profile(record_shapes=True), profiler.record_function(STEPS)
    running.start()
    steps.__enter__()

    def end(path: str) -> None:
        steps.__exit__(None, None, None)
        running.stop()
        running.export_chrome_trace(path)

    return end


def _begin_jax() -> Callable[[str], None]:
    jax, folder = _jax(), f"{os.environ[SOCKET]}.trace"
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2  # no calls of Python, but instructions on a CPU
    jax.profiler.start_trace(folder, profiler_options=options)
    steps = jax.profiler.TraceAnnotation(STEPS)
    steps.__enter__()

    def end(path: str) -> None:
        steps.__exit__(None, None, None)
        jax.profiler.stop_trace()
        (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)  # noqa: PTH207 - light
        modules = [each for run in jax.devices()[0].client.live_executables() for each in run.hlo_modules()]
        texts = sorted(((each.name, each.to_string()) for each in modules), key=lambda each: len(each[1]))
        with open(path, "w", encoding="utf-8") as written:  # noqa: PTH123 - light
            json.dump({"rows": [*_rows(jax.profiler.ProfileData.from_file(file))], "programs": dict(texts)}, written)

    return end


def _rows(profile: Any) -> Iterator[tuple[Any, ...]]:
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                stats, begin, took = dict(event.stats), round(event.start_ns), round(event.duration_ns)
                known = {name: str(stats[name]) for name in ("hlo_op", "hlo_module") if name in stats}
                if known or event.name.startswith((STEPS, ENDED)) or plane.name.startswith("/device"):
                    yield plane.name, line.name, event.name, begin, begin + took, known
