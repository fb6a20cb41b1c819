"""A cell from its id, or from how its id begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from framework_training_suite import CommandError
from suite.catalog.setting import Count, Releases, Setting
from suite.catalog.settings import BY_ID
from suite.catalog.suggest import unknown
from suite.catalog.versions import VERSION
from suite.plan.cell import COMPILES, FRAMEWORKS, LOADERS, PRECISIONS, REFERENCE_STRATEGY, WORKLOADS, Cell, Loader
from workloads import registry
from workloads.lengths import FIXED


def _parts_of(setting: Setting) -> dict[str, object]:
    """The parts of an id that stand for a value of a setting that an id may leave out."""
    return {setting.part(value): value for value in setting.choices if value != setting.default}


#: The settings after the loader in their places, with the values that their parts stand for.
PLACES = {each: _parts_of(each) for each in BY_ID if not each.is_always_named}
PARTS = [part for parts in PLACES.values() for part in parts]


class ChoiceError(CommandError, ValueError):
    """An id that names no cell; the message says what is wrong with it."""


def parse_cell(text: str) -> Cell:
    """The cell with this id; what is left out at its end is as usual: ``imdb_lstm-jax`` is the one in fp32, batch 32.

    Raises `ChoiceError`, or `suite.plan.cell.CellError` for a wrong loader.
    """
    workload, *rest = text.split("-")
    _check_known("workload", workload, (*WORKLOADS, *registry.names()))
    if not rest or not rest[0]:
        names = ", ".join(f"{workload}-{framework}" for framework in FRAMEWORKS)
        raise ChoiceError(f"{text!r} names no framework; there are: {names}")
    _check_known("framework", rest[0], FRAMEWORKS)
    settings = {"workload": workload, "framework": rest[0]} | _settings(rest[1:])
    if settings.get("devices", 1) != 1:  # an id leaves this one out
        settings.setdefault("strategy", REFERENCE_STRATEGY[rest[0]])
    cell = Cell(**settings)  # type: ignore[arg-type]
    if cell.interface != "native":
        raise ChoiceError(f"{text!r} is trained by {cell.interface}, and profiles are taken of the native loop")
    if cell.lengths != FIXED:
        raise ChoiceError(f"{text!r} trains on several lengths, and a profile is of steps that are alike")
    if cell.recipe:
        raise ChoiceError(f"{text!r} trains to its end; leave out -{cell.recipe} to profile its steps")
    return cell


def _settings(parts: Sequence[str]) -> dict[str, object]:
    left = list(parts)
    settings: dict[str, object] = {}
    if left:
        settings["precision"] = _check_known("precision", left.pop(0), PRECISIONS)
    if left:
        settings["batch"] = _number("batch", left.pop(0), "b")
    if left:
        settings["compile"] = _check_known("compile mode", left.pop(0), COMPILES)
    loader = [left.pop(0) for _ in _of_loader(left)]
    if loader:
        settings["loader"] = Loader.from_id("-".join(loader))
    for setting, values in PLACES.items():
        if isinstance(setting, Count):
            letter = setting.short.partition("{")[0]
            if left and re.fullmatch(rf"{letter}\d{{1,9}}", left[0]):
                settings[setting.name] = _number(setting.title, left.pop(0), letter)
        elif isinstance(setting, Releases):
            if left and re.fullmatch(VERSION, left[0]):
                settings[setting.name] = left.pop(0)
        elif part := next((part for part in values if [*left, ""][: part.count("-") + 1] == part.split("-")), ""):
            settings[setting.name] = values[part]
            del left[: part.count("-") + 1]
    if left:
        raise ChoiceError(unknown("setting", "-".join(left), (*PARTS, *LOADERS)))
    return settings


def _of_loader(parts: Sequence[str]) -> list[str]:
    """The parts that belong to the loader: all up to one that belongs to a later setting."""
    later = {word for part in PARTS for word in part.split("-")}
    letters = "".join(each.short.partition("{")[0] for each in PLACES if isinstance(each, Count))
    taken = []
    for part in parts:
        if part in later or re.fullmatch(rf"[{letters}]\d+|{VERSION}", part):
            break
        taken.append(part)
    return taken


def _check_known(what: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ChoiceError(unknown(what, value, choices))
    return value


def _number(what: str, text: str, letter: str) -> int:
    if not re.fullmatch(rf"{letter}[1-9]\d{{0,8}}", text):
        raise ChoiceError(f"{what} is {text!r}; write {letter} and a number, such as {letter}32")
    return int(text[1:])
