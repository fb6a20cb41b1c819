"""The suite's door: ``training-suite``, how each command ends, what pytest loads by its entry point, and what is said
of missing libraries.

It stands outside of the packages, so that a package of the user's own that is named ``suite`` or ``workloads`` can be
told from the suite's, and that both may use it. It imports little of the standard library and nothing else, as every
measured process imports it. Without the suite among pytest's arguments it does nothing.

PYTEST_DONT_REWRITE: `training-suite run` imports it before pytest, which would warn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec

ROOT = Path(__file__).resolve().parent

#: What is imported of the dependencies and of the extra `controller`.
LIBRARIES = (
    "PIL", "jinja2", "matplotlib", "msgspec", "numpy", "packaging", "pandas", "pooch", "psutil", "pyarrow", "pynvml",
    "pytest", "pytest_benchmark", "rich", "scipy",
)  # fmt: skip
#: Those of them that `training-suite run` needs from its start to its end.
MEASURING = ("msgspec", "numpy", "pandas", "psutil", "pytest_benchmark", "rich", "scipy")

#: Environments of a checkout that may have all of them: README's, and those of `tox run -m bench`.
CONTROLLERS = (".venv", ".tox/bench", ".tox/bench-cuda")

#: What the suite is called in help, errors and the commands that it prints, and how Python runs it without that script.
PROGRAM, MODULE = "training-suite", "suite"

#: The exit status of an interrupted command, and of one that an error ends or whose output cannot be written.
INTERRUPTED, FAILED = 130, 2

Arguments = ParamSpec("Arguments")


class CommandError(Exception):
    """An error of the user's input or machine: its message is the one line with which a command ends."""


def entry(then: str = "") -> Callable[[Callable[Arguments, int]], Callable[Arguments, int]]:
    """Decorates the ``main`` of a command, so that all end alike: by an error, interrupted, without a reader.
    ``then`` is said after an interruption: what is kept, or how to go on.
    """

    def decorate(main: Callable[Arguments, int]) -> Callable[Arguments, int]:
        def ending(*arguments: Arguments.args, **named: Arguments.kwargs) -> int:
            from suite.session.interrupts import interruptible
            from suite.session.streams import writable

            spec = sys.modules[main.__module__].__spec__
            name = called(spec.name if spec else _command())
            with writable(name):
                restore = interruptible()
                try:
                    status: int | SystemExit = main(*arguments, **named)
                except SystemExit as end:  # as with --help
                    status = end
                except KeyboardInterrupt:
                    status = _say(name, f"interrupted{then and '; '}{then}", INTERRUPTED)
                except (CommandError, OSError) as problem:
                    from suite.record.text import clean

                    said: object = problem
                    if isinstance(problem, OSError) and problem.filename:
                        said = f"{problem.filename}: {problem.strerror}"
                    status = _say(name, spelled(clean(said, 1000)))
                finally:
                    restore()
            if isinstance(status, SystemExit):
                raise status
            return status

        return update_wrapper(ending, main)

    return decorate


def _say(name: str, problem: str, status: int = FAILED) -> int:
    """Print what ends a command; returns its exit status."""
    print(f"{name}: {problem}", file=sys.stderr, flush=True)  # noqa: T201
    return status


def called(module: str) -> str:
    """What messages call the command of a module: ``training-suite compare`` for ``suite.compare.__main__``."""
    words = module.removesuffix(".__main__").split(".")
    return " ".join([PROGRAM, *words[1:]]) if words[0] in (MODULE, "workloads", PROGRAM) else module


def typed(line: str) -> str:
    """A command as it can be typed in the shell that started this process: ``.venv/bin/training-suite compare``.

    Its first word becomes the path of that program beside the running interpreter, unless the shell finds it anyway.
    """
    program, space, rest = line.partition(" ")
    return f"{_program(program)}{space}{rest}"


def spelled(text: str) -> str:
    """A text with the suite's commands in it as they can be typed here; a path or a name stays as it is."""
    import re

    return re.sub(rf"(?<![\w./-]){PROGRAM}(?= [a-zC])", lambda _: _program(PROGRAM), text)


def _program(name: str) -> str:
    import shutil

    python, path = Path(sys.executable), os.environ.get("PATH", os.defpath)
    if inner := os.environ.get("TOX_ENV_DIR"):  # tox's own environment is first on this PATH, and not on the shell's
        path = os.pathsep.join(each for each in path.split(os.pathsep) if not Path(each).is_relative_to(inner))
        if os.access(outer := ROOT / ".venv" / "bin" / "python", os.X_OK) and has(ROOT / ".venv", "pytest"):
            python = outer
    if (found := shutil.which(name, path=path)) and Path(found).parent == python.parent:
        return name
    beside = python.parent / name
    if os.access(beside, os.X_OK):
        return shown(beside)
    return shown(python) if name == "python" else f"{_program('python')} -m {MODULE if name == PROGRAM else name}"


def shown(path: Path) -> str:
    """A path for a command line: from the current folder on, where it lies in there."""
    import shlex

    text = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    return shlex.quote(text if os.sep in text else f"./{text}")  # else the shell would look for it on its PATH


def has(environment: Path, module: str) -> bool:
    """Whether a virtual environment has a module, by its files."""
    return any(environment.glob(f"lib/python*/site-packages/{module}*"))


def lack(modules: Sequence[str]) -> str:
    """Says in one line which of the modules this interpreter lacks, and the way out; empty if it has all."""
    absent = [name for name in modules if find_spec(name) is None]
    if not absent:
        return ""
    here = Path(sys.prefix).resolve()
    others = [place for each in CONTROLLERS if (place := ROOT / each).resolve() != here]
    if other := next((place for place in others if all(has(place, name) for name in absent)), None):
        way = f"use {shown(other / 'bin' / 'python')}, which has {'it' if len(absent) == 1 else 'them'}"
    elif sys.prefix != sys.base_prefix and has(Path(sys.prefix), "pip"):
        way = f"{shown(Path(sys.executable))} -m pip install {_requirement()}"
    else:
        way = f"python3 -m venv .venv && .venv/bin/pip install {_requirement()}, and use .venv/bin/python"
    return f"No module named {', '.join(map(repr, absent))} in {shown(Path(sys.executable))}: {way}"


def _requirement() -> str:
    """What pip installs to have all of `LIBRARIES`: this checkout, or what the package was installed from."""
    import json
    import shlex
    from importlib import metadata

    if (ROOT / "pyproject.toml").is_file():
        return "-e '.[controller]'" if Path.cwd() == ROOT else f"-e {shlex.quote(f'{ROOT}[controller]')}"
    name = "framework-training-suite"
    try:
        source = json.loads(metadata.distribution(name).read_text("direct_url.json") or "{}").get("url", "")
    except (metadata.PackageNotFoundError, ValueError):
        source = ""
    return shlex.quote(f"{name}[controller]{f' @ {source}' if source else ''}")


def refuse_without_libraries() -> None:
    """Raise pytest's error of wrong usage where `training-suite run` could not measure, or could not end."""
    import pytest

    if problem := lack(MEASURING):
        raise pytest.UsageError(problem)


def begin_command() -> None:
    """Let this process be a command: it ends with one line where a library is missing, or after Ctrl-C while importing.

    A notebook's ``MPLBACKEND`` is of its own Python, and none of windows that a command opens.
    """
    os.environ.pop("MPLBACKEND", None)
    before = sys.excepthook

    def explain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):  # while a command is imported
            raise SystemExit(_say(called(_command()), "interrupted", INTERRUPTED))
        name = (getattr(error, "name", None) or "").partition(".")[0]
        problem = lack([name]) if isinstance(error, ModuleNotFoundError) and name in LIBRARIES else ""
        if problem:
            raise SystemExit(_say(called(_command()), problem))
        before(kind, error, trace)

    sys.excepthook = explain


def begin_if_command() -> None:
    """Do so if this process is ``python -m`` with a module of the suite, whose packages call this when imported."""
    if sys.argv[:1] == ["-m"] and _command().partition(".")[0] in (MODULE, "workloads"):
        begin_command()


def _command() -> str:
    """The module that ``python -m`` runs, else the program."""
    after = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
    return after[0] if after else Path(sys.argv[0]).name


def hidden() -> str:
    """What hides a package of the suite, in one line; empty if nothing does."""
    if problem := other_suite():
        return problem
    try:
        import_module("suite")
    except ImportError as error:
        return str(error)
    return ""


def other_suite() -> str:
    """The package ``suite`` that is found, in one line, where it is somebody else's; without importing it."""
    spec = find_spec("suite")
    places = list((spec and spec.submodule_search_locations) or ())
    if any((Path(place) / "test_training.py").is_file() for place in places):
        return ""
    place = Path(next(iter(places), (spec and spec.origin) or "nowhere")).resolve()
    return (
        f"{place} hides the suite's package 'suite': run `training-suite`, which does not look in the current folder, "
        f"and without {place.parent} on PYTHONPATH"
    )


def main() -> int:
    """Run `suite.__main__`, or say what hides it."""
    if problem := hidden():
        return _say(PROGRAM, problem)
    begin_command()
    from suite.__main__ import main as run

    return run()


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    """Load the suite's plugin for ``pytest --pyargs suite``, where nothing has loaded it yet."""
    import pytest

    # pytest rewrites the asserts of every package of a distribution that has a plugin; the suite's are not for it, nor
    # are those of somebody else's package of the same name.
    for name in (MODULE, "workloads"):
        getattr(pluginmanager.rewrite_hook, "_must_rewrite", set()).discard(name)
    getattr(pluginmanager.rewrite_hook, "_marked_for_rewrite_cache", {}).clear()
    arguments: Sequence[str] = list(map(str, pluginmanager.get_plugin("pytestconfig").invocation_params.args))
    if "--pyargs" not in arguments or not any(each.partition(".")[0] == "suite" for each in arguments):
        return
    if "suite.plugin" in arguments or pluginmanager.has_plugin("suite.plugin"):
        return
    if problem := other_suite():  # then these may well be its own tests: said only where pytest refuses an option
        getattr(parser, "extra_info", {})["training-suite"] = problem
        return
    if problem := hidden():
        raise pytest.UsageError(problem)
    pluginmanager.import_plugin("suite.plugin")
    for option in parser.getgroup("benchmark").options:  # pytest-benchmark may have come first
        if "--benchmark-save" in option.names():
            option.attrs().update(nargs="?", const=sys.modules["suite.plugin"].AUTOMATIC)
