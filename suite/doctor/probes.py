"""Asks each framework about its installation, in its own interpreter, all at once and within a time limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from suite.catalog import frameworks as catalog
from suite.plan.cell import FRAMEWORKS, PRECISIONS, Cell
from suite.session.launches.launch import LateError, LaunchError, ask, tox_environment
from suite.worker.frameworks import UnsupportedError, import_framework

#: Importing a framework from a cold disk on a busy machine has taken almost this long.
ANSWER_WITHIN_S = 60.0

#: How often a line says which frameworks have not answered yet.
REMIND_EVERY_S = 10.0

#: Values of ``lack``: why a framework has no answer.
NO_ANSWER, NOT_INSTALLED, FAILED = "no answer", "not installed", "failed"

Installed = dict[str, Any]


def installation(framework: str) -> Installed:
    """Returns versions, devices, and for each precision why it is unsupported (empty if it is supported).

    ``other`` names an accelerator that the framework finds and the suite does not support; it is then asked for the
    precisions of a CPU. ``bytecode`` says whether launches find the framework compiled, or compile it for the next one.
    A framework that is not installed in this interpreter has ``lack`` and ``error`` instead.
    """
    try:
        adapter = import_framework(framework)
    except ModuleNotFoundError as error:
        return {"lack": NOT_INSTALLED, "error": f"is not installed (no module named {error.name})"}
    try:
        installed: Installed = adapter.installation()
    except UnsupportedError as error:
        reason, _, mend = str(error).partition("; ")
        return {"lack": FAILED, "error": reason, "mend": mend}
    installed["other"] = adapter.other_accelerator()
    installed["bytecode"] = not sys.dont_write_bytecode or _is_compiled(catalog.FRAMEWORKS[framework].package)
    device = "cpu" if installed["other"] else "auto"
    installed["precisions"] = {}
    for precision in PRECISIONS:
        try:
            adapter.prepare(Cell("cifar100_cnn", framework, precision=precision), device, 0)
            installed["precisions"][precision] = ""
        except UnsupportedError as error:
            installed["precisions"][precision] = str(error)
    return installed


def _is_compiled(package: str) -> bool:
    spec = find_spec(package)
    return spec is None or spec.cached is None or Path(spec.cached).is_file()


def answer_of(framework: str, wait_s: float) -> Installed:
    """Returns the answer of the framework's interpreter; ``lack`` and ``error`` if none comes in ``wait_s`` seconds."""
    try:
        answer: Installed = ask(framework, "suite.doctor", ["--framework", framework], wait_s)
    except LateError:
        mend = f"try again (the second time is faster), or wait longer: --wait {5 * wait_s:g}"
        error = f"gave no answer within {wait_s:g} s; it may be installed or not"
        return {"lack": NO_ANSWER, "error": error, "mend": mend}
    except LaunchError as error:
        return {"lack": NOT_INSTALLED if "No module named" in str(error) else FAILED, "error": str(error)}
    return {**answer, "environment": tox_environment(framework)}


def ask_all(
    wait_s: float = ANSWER_WITHIN_S, report: Callable[[str], None] = lambda _: None, names: Sequence[str] = ()
) -> Iterator[tuple[str, Installed]]:
    """Yields each of these frameworks, or of all, with its answer, as the answers arrive; ``report`` gets lines.

    Whoever is still asked when this process is interrupted is ended.
    """
    names, begin_s = names or FRAMEWORKS, time.monotonic()
    report(f"asking {', '.join(names)}, up to {wait_s:g} s each")
    with ThreadPoolExecutor(len(names)) as pool:
        waiting = {pool.submit(answer_of, framework, wait_s): framework for framework in names}
        while waiting:
            try:
                done, _ = wait(waiting, REMIND_EVERY_S, FIRST_COMPLETED)
            except KeyboardInterrupt:
                for process in psutil.Process().children():
                    process.kill()
                raise
            elapsed = f"after {time.monotonic() - begin_s:.1f} s"
            if not done:
                report(f"{', '.join(waiting.values())}: no answer yet {elapsed}")
            for future in done:
                framework, answer = waiting.pop(future), future.result()
                report(f"{framework}: {answer.get('lack', 'answered')} {elapsed}")
                yield framework, answer
