"""One cell of a matrix: every setting of one measured training run, as a value.

Standard library only. A cell is hashable, has a readable id for ``pytest -k``, and travels as JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

WORKLOADS = ("cifar100_cnn", "imdb_lstm")
FRAMEWORKS = ("pytorch", "tensorflow", "jax")
PRECISIONS = ("fp32", "fp64")
COMPILES = ("eager", "graph", "compile")
SIZES = ("full", "small")
LOADERS = ("tuned", "workers")

#: How each framework is used when nobody asks for anything else.
USUAL_COMPILE = {"pytorch": "eager", "tensorflow": "graph", "jax": "compile"}


class CellError(ValueError):
    """A setting that no cell can have; the message lists what there is."""


@dataclass(frozen=True)
class Loader:
    """How batches are made: ``tuned`` is the framework's best on the machine at hand, ``workers`` asks for N."""

    kind: str = "tuned"
    workers: int = 0

    def __post_init__(self) -> None:
        _choice("loader", self.kind, LOADERS)
        _natural("workers", self.workers, least=0)

    @property
    def id(self) -> str:
        return f"w{self.workers}" if self.kind == "workers" else self.kind


@dataclass(frozen=True)
class Cell:
    """The settings of one measured training run."""

    workload: str
    framework: str
    precision: str = "fp32"
    batch: int = 32
    compile: str = ""
    loader: Loader = field(default_factory=Loader)
    size: str = "full"

    def __post_init__(self) -> None:
        _choice("workload", self.workload, WORKLOADS)
        _choice("framework", self.framework, FRAMEWORKS)
        _choice("precision", self.precision, PRECISIONS)
        _choice("size", self.size, SIZES)
        _natural("batch", self.batch, least=1)
        if not self.compile:
            object.__setattr__(self, "compile", USUAL_COMPILE[self.framework])
        _choice("compile", self.compile, COMPILES)

    @property
    def id(self) -> str:
        """For example ``cifar100_cnn-pytorch-fp32-b32-eager-tuned``; a size other than ``full`` comes last."""
        parts = [self.workload, self.framework, self.precision, f"b{self.batch}", self.compile, self.loader.id]
        return "-".join(parts if self.size == "full" else [*parts, self.size])

    def but(self, **changes: Any) -> Cell:
        """The same cell with some settings changed; a new framework gets its usual compile mode."""
        if "framework" in changes:
            changes.setdefault("compile", "")
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Cell:
        """Raises `CellError` for anything that `to_json` cannot have written."""
        try:
            known = {f.name for f in fields(cls)}
            if unknown := sorted(set(data) - known):
                raise CellError(f"a cell has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}")
            return cls(**{**data, "loader": Loader(**data.get("loader", {}))})
        except (TypeError, AttributeError) as error:
            raise CellError(f"not a cell: {error}") from None


def _choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise CellError(f"unknown {what} {value!r}; there are: {', '.join(choices)}")


def _natural(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise CellError(f"{what} is {value!r}; it must be a whole number of at least {least}")
