"""The frameworks' profilers in a script that is measured: what they see of the steps between two turns."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module

from suite.watch import OBSERVER, SOCKET, _backend, _jax
from suite.worker.profilers.xplane import Row, programs_of_tensorflow, rows_of_jax, rows_of_tensorflow

STEPS = "suite: steps"
#: Messages in which TensorFlow writes a profile and the programs of XLA in it.
XPLANE, HLO, DATA = "tsl.profiler.protobuf.xplane", "compiler.xla.service.hlo", "compiler.xla.xla_data"


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
    imported = ["torch"] * ("torch.optim.optimizer" in sys.modules) + ["tensorflow"] * ("tensorflow" in sys.modules)
    trains = _backend(OBSERVER.source) or next(iter(imported), "")
    return {"torch": _begin_torch, "jax": _begin_jax, "tensorflow": _begin_tensorflow}.get(trains)


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
    jax, folder = _jax(), _folder()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2  # no calls of Python, but instructions on a CPU
    jax.profiler.start_trace(folder, profiler_options=options)
    steps = jax.profiler.TraceAnnotation(STEPS)
    steps.__enter__()

    def end(path: str) -> None:
        steps.__exit__(None, None, None)
        jax.profiler.stop_trace()
        modules = [each for run in jax.devices()[0].client.live_executables() for each in run.hlo_modules()]
        texts = sorted(((each.name, each.to_string()) for each in modules), key=lambda each: len(each[1]))
        _write(path, "JAX", rows_of_jax(jax.profiler.ProfileData.from_file(_file(folder))), dict(texts))

    return end


def _begin_tensorflow() -> Callable[[str], None]:
    profiler, folder = sys.modules["tensorflow"].profiler.experimental, _folder()
    profiler.start(folder)
    steps = profiler.Trace(STEPS)
    steps.__enter__()

    def end(path: str) -> None:
        steps.__exit__(None, None, None)
        profiler.stop()
        own = {each: import_module(f"tensorflow.{each}_pb2") for each in (XPLANE, HLO, DATA)}
        space = own[XPLANE].XSpace()
        with open(_file(folder), "rb") as file:  # noqa: PTH123 - light
            space.ParseFromString(file.read())
        programs = programs_of_tensorflow(space, own[HLO].HloProto, own[DATA].PrimitiveType)
        _write(path, "TensorFlow", rows_of_tensorflow(space), programs)

    return end


def _folder() -> str:
    return f"{os.environ[SOCKET]}.trace"


def _file(folder: str) -> str:
    (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)  # noqa: PTH207 - light
    return file


def _write(path: str, framework: str, rows: Iterable[Row], programs: dict[str, str]) -> None:
    """Write the rows of events that took any time, and the programs that ran."""
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - light
        json.dump(
            {"framework": framework, "rows": [row for row in rows if row[4] > row[3]], "programs": programs}, file
        )
