"""The text of a program that XLA optimised: its instructions, what a fusion holds, and what each reads and writes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<shape>.*?) (?P<opcode>[a-z][\w\-]*)\((?P<rest>.*)$")
_CALLS = re.compile(r"\bcalls=%(?P<name>[\w.\-]+)")
_OP_NAME = re.compile(r'\bop_name="(?P<name>(?:[^"\\]|\\.)*)"')
_TARGET = re.compile(r'\bcustom_call_target="(?P<name>[^"]*)"')
_ARRAY = re.compile(r"\b(?P<kind>pred|[subfc]\d+\w*|bf16)\[(?P<dims>[\d,]*)\]")
_OPERAND = re.compile(r"%(?P<name>[\w.\-]+)")

#: Instructions that move nothing.
FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all", "partition-id", "replica-id"}

_SLICED = ("dynamic-slice", "dynamic-update-slice", "gather")


@dataclass
class Instruction:
    """An instruction; ``body`` holds those of the computation that a fusion calls, and ``read`` its operands' bytes."""

    name: str
    opcode: str
    shape: str
    op_name: str = ""
    target: str = ""
    body: list[Instruction] = field(default_factory=list)
    operands: tuple[str, ...] = ()
    read: int = 0
    largest: int = 0  # bytes of the first operand, which a slice is taken from
    update: int = 0  # and of the second

    @property
    def written(self) -> int:
        """Bytes of the result."""
        return size(self.shape)

    @property
    def moved(self) -> int | None:
        """Bytes that one execution reads and writes; a loop's are those of what it calls.

        Of an array that is only sliced or updated in place, those of the slice.
        """
        if self.opcode in {"while", "call", "conditional", *FREE}:
            return None
        if self.opcode in _SLICED:
            return 2 * self.slice
        read, written = self.read, self.written
        for each in self.body:
            if each.opcode in _SLICED:
                read -= max(each.largest - each.slice, 0)
                if each.opcode == "dynamic-update-slice":
                    written -= max(each.largest - each.slice, 0)
        return max(read, 0) + max(written, 0)

    @property
    def slice(self) -> int:
        """Bytes of the part that a slice takes or an update writes."""
        return self.update if self.opcode == "dynamic-update-slice" else self.written

    def all(self) -> Iterator[Instruction]:
        """What it holds, through fusions within fusions; itself where it is no fusion."""
        if not self.body:
            yield self
        for each in self.body:
            yield from each.all()


@dataclass(frozen=True)
class Program:
    """All instructions that can run by name, and the shapes of the entry's parameters with their dimensions sorted."""

    instructions: dict[str, Instruction]
    parameters: frozenset[tuple[int, ...]]


def program(text: str) -> Program:
    """The program of an HLO text; what cannot be read is left out."""
    computations: dict[str, list[Instruction]] = {}
    calls: list[tuple[Instruction, str]] = []
    parameters: set[tuple[int, ...]] = set()
    current: list[Instruction] = []
    entry = False
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            current, entry = computations.setdefault(found["name"], []), bool(found["entry"])
        elif found := _INSTRUCTION.match(line):
            rest = found["rest"]
            op_name, target, called = _OP_NAME.search(rest), _TARGET.search(rest), _CALLS.search(rest)
            instruction = Instruction(
                found["name"], found["opcode"], found["shape"], op_name["name"] if op_name else "",
                target["name"] if target else "", operands=tuple(_OPERAND.findall(_arguments(rest))),
            )  # fmt: skip
            current.append(instruction)
            if called and found["opcode"] == "fusion":
                calls.append((instruction, called["name"]))
            if entry and found["opcode"] == "parameter":
                parameters |= {tuple(sorted(dims)) for _, dims in arrays(found["shape"]) if dims}
    inner = {name for _, name in calls}
    for instruction, name in calls:
        instruction.body = computations.get(name, [])
    runnable: dict[str, Instruction] = {}
    for name, instructions in computations.items():
        results = {each.name: each.written for each in instructions}
        for each in instructions:
            sizes = [results.get(operand, 0) for operand in each.operands]
            each.read, each.largest, each.update = sum(sizes), *(*sizes, 0, 0)[:2]
        if name not in inner:
            runnable |= {each.name: each for each in instructions}
    return Program(runnable, frozenset(parameters))


def arrays(shape: str) -> list[tuple[str, tuple[int, ...]]]:
    """Element types and dimensions of a shape, which may be a tuple."""
    return [
        (found["kind"], tuple(int(side) for side in found["dims"].split(",") if side))
        for found in _ARRAY.finditer(shape)
    ]


def size(shape: str) -> int:
    """Bytes of a shape."""
    return sum(math.prod(dims) * _width(kind) for kind, dims in arrays(shape))


def _width(kind: str) -> int:
    bits = re.search(r"\d+", kind)
    return 1 if kind == "pred" or not bits else max(1, int(bits[0]) // 8)


def _arguments(rest: str) -> str:
    """The text up to the parenthesis that closes an instruction's arguments."""
    depth = 1
    for at, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:at]
    return rest
