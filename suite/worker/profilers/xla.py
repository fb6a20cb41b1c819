"""Programs that XLA optimised, for JAX and TensorFlow: what a fusion holds, reads and writes, and its category.

JAX names an instruction after the function that it comes from: ``jvp(Cnn)`` is the forward pass, and
``transpose(jvp(Cnn))`` the backward pass, and what stands in the step itself is the optimizer. XLA drops the name of
some, above all of weight gradients; a convolution whose result has the shape of a parameter is one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from suite.worker.profilers import rules
from suite.worker.profilers.timeline import OVERHEAD

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
        return sum(math.prod(dims) * _width(kind) for kind, dims in arrays(self.shape))

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


#: Opcodes whose presence decides, the first first.
DECIDING = (
    (("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"), "communication"),
    (("convolution",), "convolution"),
    (("dot",), "matrix product"),
    (("while", "call", "conditional", "async-start", "async-done", "infeed", "outfeed"), OVERHEAD),
    (("select-and-scatter", "reduce-window", "sort", "topk"), "reduction and pooling"),
    (("rng", "rng-bit-generator", "rng-get-and-update-state"), "random numbers and dropout"),
    (("gather", "scatter"), "embedding and gather"),
)

#: Opcodes that only move data.
MOVING = {
    "copy", "transpose", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "reverse", "convert",
    "reshape", "copy-start", "copy-done",
}  # fmt: skip

#: Opcodes that say nothing of what a fusion is for.
SILENT = {*FREE, "broadcast", "iota", "reshape", "compare", "and", "or", "not"}


def program(text: str) -> Program:
    """The program of an HLO text; what cannot be read is left out."""
    computations: dict[str, list[Instruction]] = {}
    calls: list[tuple[Instruction, str]] = []
    parameters: set[tuple[int, ...]] = set()
    current: list[Instruction] = []
    entry = False
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            current, entry = computations.setdefault(match["name"], []), bool(match["entry"])
        elif match := _INSTRUCTION.match(line):
            rest = match["rest"]
            op_name, target, called = _OP_NAME.search(rest), _TARGET.search(rest), _CALLS.search(rest)
            instruction = Instruction(
                match["name"], match["opcode"], match["shape"], op_name["name"] if op_name else "",
                target["name"] if target else "", operands=tuple(_OPERAND.findall(_arguments(rest))),
            )  # fmt: skip
            current.append(instruction)
            if called and match["opcode"] == "fusion":
                calls.append((instruction, called["name"]))
            if entry and match["opcode"] == "parameter":
                parameters |= {tuple(sorted(dims)) for _, dims in arrays(match["shape"]) if dims}
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
        (match["kind"], tuple(int(side) for side in match["dims"].split(",") if side))
        for match in _ARRAY.finditer(shape)
    ]


def _width(kind: str) -> int:
    bits = re.search(r"\d+", kind)
    return 1 if kind == "pred" or not bits else max(1, int(bits[0]) // 8)


def _arguments(rest: str) -> str:
    depth = 1
    for at, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:at]
    return rest


def category_of(instruction: Instruction, whole: Program) -> str:
    """The category of an instruction; `OTHER` for a custom call of an unknown library."""
    held = [each for each in instruction.all() if each.opcode not in FREE] or [instruction]
    opcodes = {each.opcode for each in held}
    for deciding, category in DECIDING:
        if opcodes & set(deciding):
            return category if category != "convolution" else _convolution(instruction, held, whole)
    if targets := [each.target for each in held if each.opcode == "custom-call"]:
        return rules.category_of("target", targets[0])
    if named := _majority(instruction, held):
        return named
    if "reduce" in opcodes:
        return "reduction and pooling"
    moving = opcodes & MOVING and opcodes <= MOVING | {"bitcast", "select", "broadcast", "compare", "clamp"}
    return "copy and layout change" if moving else OVERHEAD if opcodes <= FREE else "element-wise"


def _majority(instruction: Instruction, held: list[Instruction]) -> str:
    """What the names of at least half of the instructions say; empty where they say nothing."""
    telling = [each for each in held if each.opcode not in SILENT] or held
    votes = Counter(rules.category_of("op_name", each.op_name or instruction.op_name, "") for each in telling)
    named, count = votes.most_common(1)[0]
    return named if 2 * count >= len(telling) else ""


def holds(instruction: Instruction) -> tuple[str, ...]:
    """What a fusion holds, in the framework's words where it has some; empty for a single instruction."""
    if not instruction.body:
        return ()
    telling = [each for each in instruction.all() if each.opcode not in SILENT]
    return tuple(dict.fromkeys(each.op_name.rpartition("/")[2] or each.opcode for each in telling))


def title(instruction: Instruction) -> str:
    """A name for people: XLA's own, and what the instruction is or comes from."""
    held = [each for each in instruction.all() if each.opcode not in SILENT] or [instruction]
    main = next((each for each in held if each.opcode in ("convolution", "dot")), held[-1])
    origin = instruction.op_name or main.op_name
    tail = "/".join(origin.split("/")[-2:]) if origin else f"{main.opcode} {main.shape.partition('{')[0]}"
    return f"{instruction.name}: {tail}"


def _convolution(instruction: Instruction, held: list[Instruction], whole: Program) -> str:
    main = next(each for each in held if each.opcode == "convolution")
    name = main.op_name or instruction.op_name
    shapes = [tuple(sorted(dims)) for _, dims in arrays(main.shape)]
    if any(shape in whole.parameters for shape in shapes) or "BackpropFilter" in name:
        return "convolution weight gradient"
    if "transpose(" in name or "BackpropInput" in name:
        return "convolution input gradient"
    return "convolution forward"
