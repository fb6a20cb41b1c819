"""Each framework is asked for itself, in its own interpreter, all at the same time and within a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from importlib import import_module
from typing import Any

from suite.plan.cell import FRAMEWORKS, PRECISIONS, Cell
from suite.session.launch import LateError, LaunchError, ask
from suite.worker.frameworks import UnsupportedError

#: Importing a framework from a cold disk, beside other work, has taken most of this.
ANSWER_WITHIN_S = 60.0

#: How often a line says which frameworks have not answered yet.
STILL_EVERY_S = 10.0

#: Why a framework has no answer, under ``lack`` of what is known of it.
NO_ANSWER, NOT_INSTALLED, FAILED = "no answer", "not installed", "failed"

Installed = dict[str, Any]


def installation(framework: str) -> Installed:
    """What a framework says of itself: versions, devices, and which precisions it has here, or why not.

    One that is not in this interpreter holds ``lack`` and ``error`` instead.
    """
    try:
        adapter = import_module(f"suite.worker.frameworks.{framework}")
    except ModuleNotFoundError as error:
        return {"lack": NOT_INSTALLED, "error": f"is not installed (no module named {error.name})"}
    found: Installed = adapter.installation()
    found["precisions"] = {}
    for precision in PRECISIONS:
        try:
            adapter.prepare(Cell("cifar100_cnn", framework, precision=precision), "auto", 0)
            found["precisions"][precision] = ""
        except UnsupportedError as error:
            found["precisions"][precision] = str(error)
    return found


def asked(framework: str, wait_s: float) -> Installed:
    """What the framework's interpreter answers within ``wait_s`` seconds; else ``lack`` and ``error``."""
    try:
        answer: Installed = ask(framework, "suite.doctor", ["--framework", framework], wait_s)
    except LateError:
        mend = f"ask again, as files read once are read faster, or wait longer: --wait {5 * wait_s:g}"
        error = f"gave no answer within {wait_s:g} s: whether it is installed and works is not known"
        return {"lack": NO_ANSWER, "error": error, "mend": mend}
    except LaunchError as error:
        return {"lack": NOT_INSTALLED if "No module named" in str(error) else FAILED, "error": str(error)}
    return answer


def ask_all(wait_s: float, show: Callable[[str], None]) -> Iterator[tuple[str, Installed]]:
    """Every framework with its answer, as they come in; ``show`` gets a line for each."""
    begin_s = time.monotonic()
    show(f"asking {', '.join(FRAMEWORKS)}, up to {wait_s:g} s each")
    with ThreadPoolExecutor(len(FRAMEWORKS)) as pool:
        waiting = {pool.submit(asked, framework, wait_s): framework for framework in FRAMEWORKS}
        while waiting:
            done, _ = wait(waiting, STILL_EVERY_S, FIRST_COMPLETED)
            passed = f"after {time.monotonic() - begin_s:.1f} s"
            if not done:
                show(f"{', '.join(waiting.values())}: no answer yet {passed}")
            for future in done:
                framework, answer = waiting.pop(future), future.result()
                show(f"{framework}: {answer.get('lack', 'answered')} {passed}")
                yield framework, answer
