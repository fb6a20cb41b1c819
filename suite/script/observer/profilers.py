"""The frameworks' profilers in a script that is measured: what they see of the steps between two turns."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any

from suite.watch import OBSERVER, SOCKET, _jax
from suite.worker.profilers.xplane import Row, is_read, programs_of_tensorflow, rows_of_jax, rows_of_tensorflow

STEPS = "suite: steps"
End = Callable[[str], None]
Begin = Callable[[], tuple[Callable[[], Any], End]]
#: Messages in which TensorFlow writes a profile and the programs of XLA in it.
XPLANE, HLO, DATA = "tsl.profiler.protobuf.xplane", "compiler.xla.service.hlo", "compiler.xla.xla_data"


class Profiler:
    """The profiler of the framework that trains, if it has one that is known here."""

    def __init__(self) -> None:
        self._end: End | None = None
        self._span: Callable[[], Any] = nullcontext
        self._steps: Any = None

    def __bool__(self) -> bool:
        return _begin() is not None

    def turn(self, path: str) -> str:
        """Begin, or end and write what was seen; how that went."""
        try:
            if self._end:
                with suppress(Exception):
                    self._steps.__exit__(None, None, None)
                self._end(path)
                return "written"
            self._span, self._end = (_begin() or _begin_torch)()
        except Exception as error:  # of a script that profiles itself, for one: training goes on
            return f"{error!r:.200}"
        return "begun"

    def begin_steps(self) -> None:
        """From here on steps count, if the profiler has begun; after a pause the last ones do."""
        with suppress(Exception):
            if self._steps:
                self._steps.__exit__(None, None, None)
            self._steps = self._span()
            self._steps.__enter__()


def _begin() -> Begin | None:
    begins = {"torch": _begin_torch, "jax": _begin_jax, "tensorflow": _begin_tensorflow}
    modules = {"torch.optim.optimizer": "torch", "tensorflow": "tensorflow"}
    imported = next((name for module, name in modules.items() if module in sys.modules), "")
    return begins.get(OBSERVER.backend or imported)


def _begin_torch() -> tuple[Callable[[], Any], End]:
    profiler = sys.modules["torch"].profiler
    running = profiler.profile(record_shapes=True)
    running.start()

    def end(path: str) -> None:
        running.stop()
        running.export_chrome_trace(path)

    return lambda: profiler.record_function(STEPS), end


def _begin_jax() -> tuple[Callable[[], Any], End]:
    jax, folder = _jax(), _folder()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2  # no calls of Python, but instructions on a CPU
    jax.profiler.start_trace(folder, profiler_options=options)

    def end(path: str) -> None:
        jax.profiler.stop_trace()
        modules = [each for run in jax.devices()[0].client.live_executables() for each in run.hlo_modules()]
        texts = sorted(((each.name, each.to_string()) for each in modules), key=lambda each: len(each[1]))
        _write(path, "JAX", rows_of_jax(jax.profiler.ProfileData.from_file(_file(folder))), dict(texts))

    return lambda: jax.profiler.TraceAnnotation(STEPS), end


def _begin_tensorflow() -> tuple[Callable[[], Any], End]:
    profiler, folder = sys.modules["tensorflow"].profiler.experimental, _folder()
    profiler.start(folder)

    def end(path: str) -> None:
        profiler.stop()
        own = {each: import_module(f"tensorflow.{each}_pb2") for each in (XPLANE, HLO, DATA)}
        space = own[XPLANE].XSpace()
        with open(_file(folder), "rb") as file:  # noqa: PTH123 - light
            space.ParseFromString(file.read())
        programs = programs_of_tensorflow(space, own[HLO].HloProto, own[DATA].PrimitiveType)
        _write(path, "TensorFlow", rows_of_tensorflow(space), programs)

    return lambda: profiler.Trace(STEPS), end


def _folder() -> str:
    return f"{os.environ[SOCKET]}.trace"


def _file(folder: str) -> str:
    (file,) = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)  # noqa: PTH207 - light
    return file


def _write(path: str, framework: str, rows: Iterable[Row], programs: dict[str, str]) -> None:
    """Write the rows that are read, from the beginning of the steps on, and the programs that ran in them."""
    kept = [row for row in rows if is_read(row)]
    begin = max((row[3] for row in kept if row[2] == STEPS), default=0)
    kept = [row for row in kept if row[4] > begin]
    modules = {row[-1].get("hlo_module") for row in kept}
    ran = {name: text for name, text in programs.items() if name in modules}
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - light
        file.write(json.dumps({"framework": framework, "rows": kept, "programs": ran}))
