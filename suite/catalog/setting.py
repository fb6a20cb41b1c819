"""What a setting of a cell says of itself: one class for each kind of value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from suite.catalog.frameworks import FRAMEWORKS, REPLACED
from suite.catalog.loaders import CellError, Loader, check_number
from suite.catalog.suggest import unknown
from suite.catalog.versions import INSTALLED, is_open, version_key

#: Stands for the largest batch that fits, which `suite.session.launches.batch_finder` searches for.
AUTO = 0

#: Columns of `launches.csv` that hold text, and whole numbers.
TEXT, WHOLE = "text", "whole number"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting whose value is one of some texts; the empty text is the framework's usual one, or none.

    ``help`` explains its option, and ``meaning`` its column of `launches.csv`. A setting without a default must be
    given. ``pattern`` matches further values.

    Words: ``title`` is its name in a sentence, ``words`` a value on its own, ``subject`` a value as the subject of a
    sentence, ``short`` a value in an id and in the label of a row.

    Order: ids have settings by ``id_place``, and rows are sorted by ``sort_place``; of one place as declared.

    Booleans: an id and a caption have every value of a setting that ``is_always_named``, else all but the default. JSON
    leaves one that ``is_later`` out at its default, as before there was any. A framework has values of its own and a
    usual one where it ``is_of_framework``. What ``is_swept`` can be varied by an option; what ``is_choice`` one would
    choose for speed, so that what it gains is looked for. One that ``is_of_script`` has no option, and tells the
    variants of a reader's own script apart. The base of ratios is the default where ``starts_at_default`` and else the
    value that sorts first. With ``saves_memory``, memory is half of the question.

    ``left_open`` is a value that leaves the choice to the framework or the system, so that any may be in force.

    ``search`` are the values, as text, that a search on a CPU and on a GPU takes without being given any.

    ``former`` has the name of a value by the name that it had before: the command line and stored cells may have the
    former one, and ids keep it.
    """

    name: str
    help: str
    meaning: str
    unit: str = ""
    default: Any = ""
    choices: tuple[str, ...] = ()
    pattern: str = ""
    title: str = ""
    words: str = ""
    subject: str = ""
    short: str = ""
    id_place: int = 0
    sort_place: int = 5
    is_always_named: bool = False
    is_later: bool = False
    is_of_framework: bool = False
    is_swept: bool = True
    is_choice: bool = True
    is_of_script: bool = False
    starts_at_default: bool = True
    saves_memory: bool = False
    left_open: str | None = None
    search: tuple[str, str] = ("", "")
    former: Mapping[str, str] = field(default_factory=dict, hash=False)

    kind = TEXT

    def __post_init__(self) -> None:
        words = self.words or f"{self.name} {{}}"
        unset = {
            "title": self.name,
            "words": words,
            "subject": words,
            "short": words if self.is_switch else "{}",
        }
        for name, value in unset.items():
            object.__setattr__(self, name, getattr(self, name) or value)

    @property
    def is_switch(self) -> bool:
        """Whether it is off or on; an id has its name alone where it is on."""
        return self.choices == ("off", "on")

    @property
    def type(self) -> Any:
        """Its type as a field of `Cell`: what JSON may hold."""
        empty = ("",) if self.default == "" else ()
        known: dict[str, Any] = {"enum": [*empty, *self.choices, *self.former]}
        return Annotated[
            str, Meta(extra_json_schema={"anyOf": [known, {"pattern": f"^{self.pattern}$"}]} if self.pattern else known)
        ]

    @property
    def values(self) -> tuple[str, ...]:
        """The values that its option takes."""
        return ("usual", *self.choices) if self.is_of_framework else self.choices

    @property
    def example(self) -> str:
        """A list of values as the command line takes it."""
        return ",".join(self.values[:2])

    def current(self, value: Any) -> Any:
        """A value by the name that it has today."""
        return self.former.get(value, value)

    def first_name(self, value: Any) -> Any:
        """A value by the name that ids and names of sweeps keep."""
        return next((old for old, new in self.former.items() if new == value), value)

    def check(self, value: Any) -> None:
        """Raises `CellError` for a value that is none of its own."""
        if value in self.choices or (value == "" and self.default == ""):
            return
        if not (self.pattern and isinstance(value, str) and re.fullmatch(self.pattern, value)):
            raise CellError(unknown(self.name, value, self.choices))

    def leaves_open(self, value: Any) -> bool:
        """Whether a value leaves the choice to the framework or the system."""
        return bool(value == self.left_open)

    def complete(self, parts: list[str]) -> list[str]:
        """The parts of a list on the command line, each by itself."""
        return parts

    def parse(self, text: str) -> Any:
        """The value that a text on the command line stands for. Raises `CellError`."""
        text = self.current(text)
        if text not in self.values:
            if words := REPLACED.get(text.lower()):
                raise CellError(words)
            raise CellError(unknown(self.title if self.name == "compile" else self.name, text, self.values))
        return "" if text == "usual" else text

    def text(self, value: Any) -> str:
        """A value as tables have it."""
        return str(value)

    def spell(self, value: Any) -> str:
        """A value as the command line takes it."""
        return self.text(value) or "usual"

    def cell_value(self, value: Any) -> Any:
        """A value in `launches.csv`."""
        return value

    def part(self, value: Any) -> str:
        """A value in an id."""
        return self.name if self.is_switch else self.short.format(self.text(self.first_name(value)))

    def rank(self, value: Any) -> Any:
        """Sorts values in their natural order."""
        return ("", *self.choices).index(value) if value in ("", *self.choices) else len(self.choices) + 1


@dataclass(frozen=True, kw_only=True)
class Count(Setting):
    """A setting whose value is a whole number, of what ``counts`` says; `AUTO` is one where ``is_found``."""

    counts: str
    example_counts: str = "1,2"
    is_found: bool = False

    kind = WHOLE

    @property
    def type(self) -> Any:
        return Annotated[int, Meta(ge=0 if self.is_found else 1)]

    @property
    def example(self) -> str:
        return self.example_counts

    def check(self, value: Any) -> None:
        if not (self.is_found and type(value) is int and value == AUTO):
            check_number(self.name, value, least=1)

    def leaves_open(self, value: Any) -> bool:
        return self.is_found and bool(value == AUTO)

    def parse(self, text: str) -> Any:
        if self.is_found and text == "auto":
            return AUTO
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise CellError(f"{self.name} is {text!r}; write {self.counts}")
        return int(text)

    def text(self, value: Any) -> str:
        return "auto" if self.is_found and value == AUTO else str(value)

    def cell_value(self, value: Any) -> Any:
        return None if self.is_found and value == AUTO else value

    def rank(self, value: Any) -> Any:
        return value or float("inf")


@dataclass(frozen=True, kw_only=True)
class Loaders(Setting):
    """The setting whose value is a `Loader`."""

    @property
    def type(self) -> Any:
        return Loader

    @property
    def example(self) -> str:
        return "tuned,w2"

    def check(self, value: Any) -> None:
        """Nothing: a loader checks itself."""

    def parse(self, text: str) -> Any:
        return Loader.from_id(text)

    def text(self, value: Any) -> str:
        return str(value.id)

    def cell_value(self, value: Any) -> Any:
        return value.id

    def rank(self, value: Any) -> Any:
        return value.rank


@dataclass(frozen=True, kw_only=True)
class Variants(Setting):
    """The setting that tells the variants of a reader's own script apart; empty for the script as it is."""

    def text(self, value: Any) -> str:
        return value or "as it is"

    def rank(self, value: Any) -> Any:
        """Sorts the numbers in a text as numbers."""
        return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", value)]


def parts_of_variant(value: str) -> dict[str, str]:
    """The values by name of which a variant consists, as ``OMP_NUM_THREADS=1+num-workers=0``."""
    return {name: text for part in value.split("+") if part for name, _, text in [part.partition("=")]}


@dataclass(frozen=True, kw_only=True)
class Releases(Setting):
    """The setting whose value is a version of the framework; empty for the environment that is installed.

    On the command line a value has its framework: ``jax=0.9.2``. The values after it are of the same framework, and one
    may stand for others: ``newest``, ``0.9.*`` (`suite.releases.resolve`).
    """

    @property
    def example(self) -> str:
        return "jax=0.9.2,0.10.2"

    def complete(self, parts: list[str]) -> list[str]:
        """Each value with its framework. Raises `CellError` where the first has none."""
        framework, completed = "", []
        for part in parts:
            name, equals, version = part.rpartition("=")
            framework = name if equals else framework
            if not framework:
                raise CellError(f"{self.name} is {part!r}; begin with a framework, such as {self.example}")
            completed.append(f"{framework}={version}")
        return completed

    def parse(self, text: str) -> Any:
        """The text itself, whose version may be open (`is_open`). Raises `CellError`."""
        framework, _, version = text.partition("=")
        if framework not in FRAMEWORKS:
            raise CellError(unknown("framework", framework, FRAMEWORKS))
        if version != INSTALLED and not is_open(version):
            self.check(version)
        return text

    def check(self, value: Any) -> None:
        if value and not (isinstance(value, str) and re.fullmatch(self.pattern, value)):
            raise CellError(f"{self.name} is {value!r}; write a version, such as {self.example}")

    def text(self, value: Any) -> str:
        return value or INSTALLED

    def spell(self, value: Any) -> str:
        return str(value)

    def rank(self, value: Any) -> Any:
        """Versions in their order, and after them the environment that is installed."""
        return version_key(value) if value else ((math.inf,), 0, 0)
