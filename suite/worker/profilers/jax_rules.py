"""Which category an instruction of XLA belongs to, by its opcode, by what a fusion holds, and by JAX's name for it.

JAX names an instruction after the function that it comes from: ``jvp(Cnn)`` is the forward pass, and
``transpose(jvp(Cnn))`` the backward pass, and what stands in the step itself is the optimizer. XLA drops the name of
some, above all of weight gradients; a convolution whose result has the shape of a parameter is one.
"""

from __future__ import annotations

import re
from collections import Counter

from suite.worker.profilers.hlo import FREE, Instruction, Program, arrays
from suite.worker.profilers.timeline import OTHER, OVERHEAD

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

#: Targets of custom calls: libraries that XLA calls by name.
TARGETS = [
    (re.compile(pattern, re.IGNORECASE), category)
    for pattern, category in (
        (r"convBackwardFilter", "convolution weight gradient"),
        (r"convBackwardInput", "convolution input gradient"),
        (r"conv", "convolution forward"),
        (r"rnn|lstm", "recurrent kernel"),
        (r"gemm|matmul|dot|cublas", "matrix product"),
        (r"threefry|rng|random", "random numbers and dropout"),
        (r"norm", "normalisation"),
        (r"softmax|topk|reduce|sort", "reduction and pooling"),
        (r"callback|host|placement", OVERHEAD),
    )
]

#: What JAX's or TensorFlow's name for an instruction says, whatever its opcode.
NAMES = [
    (re.compile(pattern), category)
    for pattern, category in (
        (
            r"threefry|random_bits|random_uniform|bernoulli|[Dd]ropout|StatelessRandom|erf_inv"
            r"|\(_?(truncated_)?(normal|uniform)(_real)?\)",
            "random numbers and dropout",
        ),
        (r"normali[sz]ation|[Bb]atch_?[Nn]orm|[Ll]ayer_?[Nn]orm", "normalisation"),
        (
            r"^(jit\(\w+\)/)?(sgd|adam|lars|lamb)/|^jit\(\w+\)/[a-z_]+$|/(Resource)?Apply|Assign(Sub|Add)?VariableOp",
            "optimizer",
        ),
    )
]


def category_of(instruction: Instruction, whole: Program) -> str:
    """The category of an instruction; `OTHER` for a custom call of an unknown library."""
    held = [each for each in instruction.all() if each.opcode not in FREE] or [instruction]
    opcodes = {each.opcode for each in held}
    for deciding, category in DECIDING:
        if opcodes & set(deciding):
            return category if category != "convolution" else _convolution(instruction, held, whole)
    if targets := [each.target for each in held if each.opcode == "custom-call"]:
        return next((category for pattern, category in TARGETS if pattern.search(targets[0])), OTHER)
    if named := _majority(instruction, held):
        return named
    if "reduce" in opcodes:
        return "reduction and pooling"
    moving = opcodes & MOVING and opcodes <= MOVING | {"bitcast", "select", "broadcast", "compare", "clamp"}
    return "copy and layout change" if moving else OVERHEAD if opcodes <= FREE else "element-wise"


def _majority(instruction: Instruction, held: list[Instruction]) -> str:
    """What the names of at least half of the instructions say; empty where they say nothing."""
    telling = [each for each in held if each.opcode not in SILENT] or held
    votes = Counter(_category_by_name(each.op_name or instruction.op_name) for each in telling)
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


def _category_by_name(name: str) -> str:
    return next((category for pattern, category in NAMES if pattern.search(name)), "")
