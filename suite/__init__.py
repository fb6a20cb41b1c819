"""Benchmark suite: the same training workloads in PyTorch, TensorFlow and JAX.

PYTEST_DONT_REWRITE: its asserts are no tests, though it brings a plugin.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework_training_suite import begin_if_command

if TYPE_CHECKING:
    from suite.compare.notebook import Run, load, runs

__all__ = ["Run", "load", "runs"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What a notebook uses, which is imported when it does: commands and workers need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("suite.compare.notebook"), name)


def check_workloads() -> None:
    """Raise `ImportError` where somebody else's package ``workloads`` hides the one beside this package.

    Each command imports this package first, so none ends in a traceback of what the other package lacks.
    """
    ours = Path(__file__).resolve().parents[1] / "workloads"
    spec = find_spec("workloads")
    other = Path(next(iter((spec and spec.submodule_search_locations) or ()), (spec and spec.origin) or ours)).resolve()
    if other != ours and ours.is_dir():
        message = (
            f"{other} hides the suite's package 'workloads' in {ours.parent}: run `training-suite`, which does not "
            f"look in the current folder, and without {other.parent} on PYTHONPATH"
        )
        raise ImportError(message, name="suite")  # by this name `training-suite compare` makes one line of it


check_workloads()
begin_if_command()
