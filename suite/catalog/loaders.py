"""How batches are made: the kinds of loaders, and a loader with its settings as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from framework_training_suite import CommandError
from suite.catalog.suggest import unknown

LOADERS = ("naive", "workers", "tuned", "resident", "dali")

#: Parts of a loader's id, with the setting and the value that each stands for.
LOADER_SWITCHES = {
    "pinned": ("pin_memory", True),
    "unpinned": ("pin_memory", False),
    "cached": ("cache", True),
    "mapped": ("cache", False),
}

Natural = Annotated[int, Meta(ge=0)]


class CellError(CommandError, ValueError):
    """An invalid setting of a cell; the message lists the valid ones."""


def check_number(what: str, value: object, least: int) -> None:
    """Raises `CellError` unless the value is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise CellError(f"{what} is {value!r}; it must be a whole number of at least {least}")


@dataclass(frozen=True)
class Loader:
    """How batches are made. A setting that is None is left to the loader.

    ``naive`` is what beginners write: one thread, sample by sample. ``workers`` uses N processes or threads. ``tuned``
    is the framework's fastest way on this machine. ``resident`` keeps the data set on the device and augments there.
    ``dali`` is NVIDIA DALI. ``prefetch`` is the number of batches kept ready. ``pin_memory`` uses page-locked host
    memory. ``cache`` keeps a copy of the data set in memory instead of memory-mapping its files.
    """

    kind: Annotated[str, Meta(extra_json_schema={"enum": list(LOADERS)})] = "tuned"
    workers: Natural = 0
    prefetch: Natural | None = None
    pin_memory: bool | None = None
    cache: bool | None = None

    def __post_init__(self) -> None:
        if self.kind not in LOADERS:
            raise CellError(unknown("loader", self.kind, LOADERS))
        check_number("workers", self.workers, least=0)
        if self.workers and self.kind != "workers":
            raise CellError(
                f"the {self.kind} loader chooses its workers itself; use Loader('workers', {self.workers}) instead"
            )
        if self.prefetch is not None:
            check_number("prefetch", self.prefetch, least=0)
        for name in ("pin_memory", "cache"):
            if getattr(self, name) not in (None, True, False):
                raise CellError(f"{name} is {getattr(self, name)!r}; it must be true, false or left out")

    @classmethod
    def from_id(cls, text: str) -> Loader:
        """The loader with this id, such as ``w2`` or ``tuned-prefetch4``. Raises `CellError`."""
        kind, *parts = text.split("-")
        count = re.fullmatch(r"w(\d{1,4})", kind)
        if kind == "workers":
            raise CellError("loader 'workers' needs a number of workers; write w2 for two")
        if not count and kind not in LOADERS:
            kinds = ["w2" if name == "workers" else name for name in LOADERS]
            raise CellError(unknown("loader", kind, kinds, "or one of them with settings, such as tuned-prefetch4"))
        settings: dict[str, Any] = {}
        for part in parts:
            if prefetch := re.fullmatch(r"prefetch(\d{1,9})", part):
                name, value = "prefetch", int(prefetch[1])
            elif part in LOADER_SWITCHES:
                name, value = LOADER_SWITCHES[part]
            else:
                raise CellError(f"loader {text!r}: {unknown('setting', part, ['prefetch4', *LOADER_SWITCHES])}")
            if name in settings:
                raise CellError(f"loader {text!r} sets {name} twice; leave out {part!r} or the other")
            settings[name] = value
        return cls("workers", int(count[1]), **settings) if count else cls(kind, **settings)

    @property
    def id(self) -> str:
        parts = [f"w{self.workers}" if self.kind == "workers" else self.kind]
        parts += [] if self.prefetch is None else [f"prefetch{self.prefetch}"]
        parts += [] if self.pin_memory is None else ["pinned" if self.pin_memory else "unpinned"]
        parts += [] if self.cache is None else ["cached" if self.cache else "mapped"]
        return "-".join(parts)

    @property
    def rank(self) -> tuple[int, int, str]:
        """Where tables show it among other loaders."""
        return LOADERS.index(self.kind), self.workers, self.id
