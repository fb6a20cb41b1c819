"""Brings `suite.watch` into a script that is measured: Python imports this file at its start, from PYTHONPATH."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any


class _Hooks(MetaPathFinder):
    """Lets modules import as ever, and then hands them to their hooks."""

    def __init__(self, hooks: Mapping[str, Callable[[Any], None]]) -> None:
        self.hooks = hooks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        hook = self.hooks.get(name)
        spec = PathFinder.find_spec(name, path, target) if hook else None
        if not hook or not spec or not spec.loader:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                hook(module)
            except Exception as error:  # the script goes on, unseen
                sys.stderr.write(f"suite.watch: {name} is not seen: {error!r}\n")

        loader.exec_module = exec_module
        return spec


def go_on(folder: str) -> None:
    """Import the ``sitecustomize`` that this one, in ``folder``, stands before; without one nothing happens."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != folder]  # noqa: PTH100 - light
    own = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError:
        if own:
            sys.modules["sitecustomize"] = own


_folder = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("suite_watch", _folder.parents[1] / "watch.py")
if _spec and _spec.loader:
    _watch = sys.modules["suite_watch"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_watch)
    sys.modules.setdefault("suite.watch", _watch)
    sys.meta_path.insert(0, _Hooks(_watch.HOOKS))
    go_on(str(_folder))
