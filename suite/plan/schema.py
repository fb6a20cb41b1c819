"""Dataclasses from JSON, strictly, by msgspec: what a type does not allow is refused in one line that names the field.

The types say what is allowed: ``Annotated[float, Meta(ge=0)]`` is a number that is finite and not negative. Rules
that concern several fields stand in the dataclass, which raises ValueError in its ``__post_init__``.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from framework_training_suite import CommandError

Kind = TypeVar("Kind")

#: What msgspec says, and where: ``Expected `str`, got `int` - at `key` in `$.phases[...].windows[3][1]` ``.
_MESSAGE = re.compile(r"(?P<words>.*?)(?: - at `\$(?P<path>[\w.\[\]]*)`)?", re.DOTALL)
#: The types that it names, as a reader of JSON knows them.
_WORDS = {"float": "a number", "int": "a whole number", "str": "text", "array": "a list", "object": "an object"}
_TYPE = re.compile(r"`(\w+)`")
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")


class SchemaError(CommandError, ValueError):
    """JSON that does not match the type; one line that names the field and what is wrong with it."""


def decode(kind: type[Kind], data: Any) -> Kind:
    """The dataclass that ``data`` holds, which is what `json.loads` returns. Raises `SchemaError`.

    No type passes for another: text is no number, true is not 1, and an object has no fields besides the dataclass's.
    """
    try:
        value = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise SchemaError(_explain(error, kind, data)) from None
    except UnicodeEncodeError:
        raise SchemaError(f"{_title(kind)}: a name in it is no Unicode text") from None
    if problem := next(_unknown(kind, data), None):
        raise SchemaError(problem)
    return value


def step_into(name: str) -> str:
    """One step of a path, to the value of this name in an object."""
    return f".{name}" if re.fullmatch(r"\w{1,60}", name) else f"[{reprlib.repr(name)}]"


def _explain(error: msgspec.ValidationError, kind: Any, data: Any) -> str:
    rule = str(error.__cause__ or "")  # of a dataclass itself
    message = _MESSAGE.fullmatch(str(error).removeprefix(rule))
    assert message
    path, expected, value = _locate(kind, data, message["path"] or "")
    if rule:
        return f"{path}: {rule}" if path else rule
    place = path or _title(kind)
    if get_origin(expected) is Literal:
        return f"{place} is {reprlib.repr(value)}; there are: {', '.join(map(str, get_args(expected)))}"
    words = _TYPE.sub(lambda match: _WORDS.get(match[1], match[1]), message["words"])
    shown = f" is {reprlib.repr(value)}" if value is None or isinstance(value, (str, int, float)) else ""
    return f"{place}{shown}: {words[0].lower()}{words[1:]}"


def _locate(kind: Any, value: Any, path: str) -> tuple[str, Any, Any]:
    """The same path with names for keys and for a named tuple's places; the type and the value at that path."""
    named = ""
    kind = _bare(kind)
    for step in _STEP.finditer(path):
        names = getattr(kind, "_fields", None)  # of a named tuple, whose places msgspec counts
        if step["any"]:
            kind = get_args(kind)[1]
            name = next(key for key, each in value.items() if _is_refused(each, kind))
            value, named = value[name], named + step_into(name)
        elif step["index"] and not names:
            kinds, place = get_args(kind), int(step["index"])
            mixed = get_origin(kind) is tuple and Ellipsis not in kinds  # a type for each place
            kind, value, named = kinds[place if mixed else 0], value[place], named + step[0]
        else:
            at: Any = step["name"] or int(step["index"])
            name = names[at] if names else at
            kind, value, named = get_type_hints(kind, include_extras=True)[name], value[at], f"{named}.{name}"
        kind = _bare(kind)
    return named.removeprefix("."), kind, value


def _bare(kind: Any) -> Any:
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return kind


def _is_refused(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return True
    return False


def _title(kind: Any) -> str:
    return str(kind.__name__).lower()


def _unknown(kind: Any, data: Any, path: str = "") -> Iterator[str]:
    """The problems of ``data``, which fits the dataclass but has further fields."""
    known, nested = _fields(kind)
    if not data.keys() <= known:
        names = reprlib.repr(sorted(data.keys() - known))
        yield f"{path or _title(kind)} has unknown fields {names}; it has {', '.join(sorted(known))}"
    start = f"{path}." if path else ""
    for name, container, inner_kind in nested:
        value = data.get(name)
        if not value:
            continue
        if container is dict:
            for key, each in value.items():
                yield from _unknown(inner_kind, each, start + name + step_into(key))
        elif container is tuple:
            for at, each in enumerate(value):
                yield from _unknown(inner_kind, each, f"{start}{name}[{at}]")
        else:
            yield from _unknown(inner_kind, value, start + name)


@cache
def _fields(kind: Any) -> tuple[frozenset[str], list[tuple[str, Any, Any]]]:
    hints = {name: _bare(hint) for name, hint in get_type_hints(kind).items()}
    nested = [
        (name, get_origin(hint), inner_kind)
        for name, hint in hints.items()
        for inner_kind in (hint, *get_args(hint))
        if is_dataclass(inner_kind)
    ]
    return frozenset(hints), nested
