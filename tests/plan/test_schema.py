"""What is refused is named by its path and its value in one line, whatever it holds; what is not refused is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from msgspec import Meta

from suite.plan.schema import SchemaError, decode


class Pair(NamedTuple):
    count: Annotated[int, Meta(ge=1)]
    share: Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Leaf:
    pairs: tuple[Pair, ...]
    colour: Literal["red", "green"] = "red"

    def __post_init__(self) -> None:
        if len(self.pairs) == 3:
            raise ValueError(f"has {len(self.pairs)} pairs")


@dataclass(frozen=True, slots=True)
class Tree:
    leaves: dict[str, Leaf]
    first: Leaf | None = None
    row: tuple[Leaf, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)
    free: dict[str, Any] = field(default_factory=dict)


WHOLE = "a whole number, got bool"
LEAF = {"pairs": [[1, 0.5]]}
HOSTILE = "a\nb\x1b[31m\u202e - at `$.leaves[...]`"


def test_what_is_allowed_is_as_it_was() -> None:
    free = {"a": [1, 1.5, None, {"b": "\ud800"}]}
    tree = decode(Tree, {"leaves": {"x": LEAF, "y/z": LEAF}, "first": None, "row": [LEAF], "free": free})
    assert tree == Tree(
        {"x": Leaf((Pair(1, 0.5),)), "y/z": Leaf((Pair(1, 0.5),))}, row=(Leaf((Pair(1, 0.5),)),), free=free
    )
    assert tree.leaves["x"].pairs[0].share == 0.5


@pytest.mark.parametrize(("data", "message"), [
    (5, "tree is 5: expected an object, got a whole number"),
    ([], "tree: expected an object, got a list"),
    ({}, "tree: object missing required field leaves"),
    ({"leaves": None}, "leaves is None: expected an object, got null"),
    ({"leaves": {"x": LEAF, "y": 5}}, "leaves.y is 5: expected an object, got a whole number"),
    ({"leaves": {"x": LEAF, "y z": {}}}, "leaves['y z']: object missing required field pairs"),
    ({"leaves": {"x": {"pairs": [[1, 1], [2, 1.5]]}}}, "leaves.x.pairs[1].share is 1.5: expected a number <= 1.0"),
    ({"leaves": {"x": {"pairs": [[1, math.nan]]}}}, "leaves.x.pairs[0].share is nan: expected a number >= 0.0"),
    ({"leaves": {}, "row": [{"pairs": [[True, 1]]}]}, "row[0].pairs[0].count is True: expected " + WHOLE),
    ({"leaves": {"x": {"pairs": [[1]]}}}, "leaves.x.pairs[0]: expected a list of length 2, got 1"),
    ({"leaves": {"x": {"pairs": 3 * [[1, 1]]}}}, "leaves.x: has 3 pairs"),
    ({"leaves": {}, "row": [LEAF, LEAF | {"colour": "blue"}]}, "row[1].colour is 'blue'; there are: red, green"),
    ({"leaves": {}, "first": {"pairs": "[]"}}, "first.pairs is '[]': expected a list, got text"),
    ({"leaves": {}, "parts": {"b": 10**400}}, f"parts.b is 1{17 * '0'}...{19 * '0'}: number out of range"),
    ({"leaves": {}, "bark": 1}, "tree has unknown fields ['bark']; it has first, free, leaves, parts, row"),
    ({"leaves": {"y z": LEAF | {"a": 1}}}, "leaves['y z'] has unknown fields ['a']; it has colour, pairs"),
    ({"leaves": {}, "first": LEAF | {"a": 1}}, "first has unknown fields ['a']; it has colour, pairs"),
    ({"leaves": {}, "row": [LEAF, LEAF | {"a": 1}]}, "row[1] has unknown fields ['a']; it has colour, pairs"),
])  # fmt: skip
def test_what_is_refused_is_named_with_its_path_and_value(data: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        decode(Tree, data)
    assert str(caught.value) == message


@pytest.mark.parametrize("data", [
    {HOSTILE: 1, "leaves": {}},
    {"leaves": {HOSTILE: 5}},
    {"leaves": {HOSTILE: LEAF | {HOSTILE: 1}}},
    {"leaves": {}, "first": LEAF | {"colour": HOSTILE}},
    {"leaves": {}, "first": LEAF | {"colour": 10_000 * "x"}},
    {"leaves": {}, "parts": {HOSTILE: HOSTILE}},
    {"leaves": {}, "first": LEAF | {"colour": "\ud800"}},
    {"leaves": {}, "\ud800": 1},
])  # fmt: skip
def test_hostile_names_and_values_leave_one_short_line(data: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        decode(Tree, data)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
