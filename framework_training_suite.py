"""The suite's door where it is installed: ``training-suite``, and what pytest loads by its entry point.

It stands outside of the package, so that a package of the user's own that is named ``suite`` or ``workloads`` can be
told from the suite's. Without the suite among pytest's arguments it does nothing.

PYTEST_DONT_REWRITE: `training-suite run` imports it before pytest, which would warn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


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
        print(f"training-suite: {problem}", file=sys.stderr)  # noqa: T201
        return 2
    from suite.__main__ import main as run

    return run()


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    """Load the suite's plugin for ``pytest --pyargs suite``, where nothing has loaded it yet."""
    import pytest

    # pytest rewrites the asserts of every package of a distribution that has a plugin; the suite's are not for it, nor
    # are those of somebody else's package of the same name.
    for name in ("suite", "workloads"):
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
