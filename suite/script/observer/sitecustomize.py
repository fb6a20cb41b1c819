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


def _load(name: str, path: Path) -> Any:
    """The module in a file, which imports nothing of this package and of no framework."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_folder = Path(__file__).resolve().parent
sys.modules.setdefault("suite.watch", _load("suite_watch", _folder.parents[1] / "watch.py"))
sys.modules["suite.worker.profilers.xplane"] = _load("suite_xplane", _folder.parents[1] / "worker/profilers/xplane.py")
sys.modules["suite.script.observer.profilers"] = _load("suite_profilers", _folder / "profilers.py")
sys.meta_path.insert(0, _Hooks(_load("suite_hooks", _folder / "hooks.py").HOOKS))
go_on(str(_folder))
