"""The suite's door where it is installed: ``training-suite``, and what pytest loads by its entry point.

It stands outside of the package, so that a package of the user's own that is named ``suite`` or ``workloads`` can be
told from the suite's. Without the suite among pytest's arguments it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def hidden() -> str:
    """What hides a package of the suite, in one line; empty if nothing does."""
    for name in ("suite", "workloads"):
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        places = (
            [origin.parent] if origin else [Path(each) for each in (spec and spec.submodule_search_locations) or ()]
        )
        if places and not (places[0] / "py.typed").is_file() and not (places[0] / "recipes.py").is_file():
            return (
                f"the package {name!r} in {places[0]} hides the suite's; run `training-suite` from another folder, "
                "without it on PYTHONPATH"
            )
    return ""


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

    # pytest rewrites the asserts of every package of a distribution that has a plugin; the suite's are not for it.
    for name in ("suite", "workloads"):
        getattr(pluginmanager.rewrite_hook, "_must_rewrite", set()).discard(name)
    getattr(pluginmanager.rewrite_hook, "_marked_for_rewrite_cache", {}).clear()
    arguments: Sequence[str] = list(map(str, pluginmanager.get_plugin("pytestconfig").invocation_params.args))
    if "--pyargs" not in arguments or not any(each.partition(".")[0] == "suite" for each in arguments):
        return
    if "suite.plugin" in arguments or pluginmanager.has_plugin("suite.plugin"):
        return
    if problem := hidden():
        raise pytest.UsageError(problem)
    pluginmanager.import_plugin("suite.plugin")
    for option in parser.getgroup("benchmark").options:  # pytest-benchmark may have come first
        if "--benchmark-save" in option.names():
            option._attrs |= {"nargs": "?", "const": sys.modules["suite.plugin"].AUTOMATIC}
