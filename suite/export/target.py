"""What every target has in common: its functions, its library, and the errors that end in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from suite.plan.suggest import unknown
from suite.record.record import Record


class ExportError(RuntimeError):
    """Something could not be exported; one line that says what and the way out."""


@dataclass(frozen=True)
class Origin:
    """The run that launches belong to: its id, and what the file says about it. Both may come from a stranger."""

    run: str
    description: dict[str, Any]


class Target(Protocol):
    """The functions of a target, in this order in each of the files; ``session`` is what `begin` returned."""

    def place(self, given: str | None) -> str:
        """Where launches go: what was given, or the default. Raises `ExportError` for a place that cannot be one."""

    def begin(self, place: str, origin: Origin) -> Any:
        """Open the place for a run, once. Raises `ExportError`."""

    def add(self, session: Any, record: Record) -> bool:
        """Add a launch; False if it was there already, as after an earlier export. Raises `ExportError`."""

    def attach(self, session: Any, files: Sequence[Path]) -> int:
        """Add the files of a report, and return how many the target takes."""

    def end(self, session: Any) -> str:
        """Close the session, and return one line that says where the launches are and how to look at them."""


#: Each target: the module that it needs, and the extra of this project that installs it.
LIBRARIES = {
    "mlflow": ("mlflow", "mlflow"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "wandb": ("wandb", "wandb"),
    "prometheus": ("prometheus_client", "prometheus"),
}


def target(name: str) -> Target:
    """The target of this name. Raises `ExportError` if there is none, or its library is not installed."""
    if name not in LIBRARIES:
        raise ExportError(unknown("target", name, LIBRARIES))
    module, extra = LIBRARIES[name]
    if find_spec(module) is None:
        raise ExportError(
            f"{module} is not installed; it comes with the extra framework-training-suite[{extra}]. In a checkout: "
            f"pip install -e '.[{extra}]'"
        )
    return cast("Target", import_module(f"suite.export.{name}"))
