"""Causes that are known already: when each applies, in a sentence, and where its evidence is.

A cause is a likely reason, not a measured one, and is mentioned beside a category that takes longer in the slower row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from suite.analysis.bottlenecks.causes import Costs

#: A share of a step below which a category is not there to speak of.
LITTLE_SHARE = 0.02
#: From so many calls per step on, an operation runs in a loop over time steps.
LOOPED = 100


@dataclass(frozen=True)
class Reason:
    """A known cause in words, and its evidence: a page of this repository or an address."""

    name: str
    words: str
    source: str


class Known(NamedTuple):
    """A cause, the categories that it makes longer, its source, and whether it holds for a slower and a faster row."""

    name: str
    words: str
    categories: tuple[str, ...]
    source: str
    holds: Callable[[Costs, Costs], bool]


def find_known_causes(category: str, slower: Costs, faster: Costs) -> tuple[Reason, ...]:
    """The known causes that make this category of the slower row longer."""
    holding = (each for each in KNOWN if category in each.categories and each.holds(slower, faster))
    return tuple(Reason(each.name, each.words, each.source) for each in holding)


def _xla(costs: Costs) -> bool:
    cell = costs.row.cell
    return cell.framework == "jax" or (cell.framework, cell.compile) == ("tensorflow", "compile")


def _has(costs: Costs, category: str) -> bool:
    return costs.seconds[category] > LITTLE_SHARE * costs.step_s


def _has_named(costs: Costs, pattern: str, most_calls: bool = False) -> bool:
    return any(
        re.search(pattern, name, re.IGNORECASE) and (not most_calls or each.calls >= LOOPED)
        for each in costs.typical.operations
        for name in (each.name, *each.holds)
    )


def _denormals(costs: Costs) -> set[str]:
    return {str(record.settings.get("denormals")) for record in costs.row.ok}


def _layout(slower: Costs, faster: Costs) -> bool:
    convolutions = slower.calls["convolution forward"]
    copies, others = (each.calls["copy and layout change"] for each in (slower, faster))
    return convolutions > 0 and copies >= convolutions and copies > 1.5 * others


def _host_copies(slower: Costs, _: Costs) -> bool:
    return (
        slower.row.cell.framework == "tensorflow"
        and slower.on_gpu
        and _has_named(slower, r"memcpy.*(dtoh|d2h|htod|h2d)")
    )


def _thunks(slower: Costs, faster: Costs) -> bool:
    looped = _has_named(slower, r"while") or any(calls >= LOOPED for calls in slower.calls.values())
    return _xla(slower) and not _xla(faster) and not slower.on_gpu and looped and _recurrent(slower)


def _tensor_lists(slower: Costs, _: Costs) -> bool:
    return (
        slower.row.cell.framework == "tensorflow" and not _xla(slower)
        and (_has_named(slower, r"tensorlist") or _has_named(slower, r"while|loopcond|nextiteration", most_calls=True))
    )  # fmt: skip


def _recurrent(costs: Costs) -> bool:
    return "lstm" in costs.row.cell.workload or _has(costs, "recurrent kernel")


#: Pages of this repository are named from its root.
CPU_RESULTS = "docs/results-cpu.md"
LOOP_PARTS = (
    "host and launch overhead", "idle", "element-wise", "matrix product", "copy and layout change", "recurrent kernel",
)  # fmt: skip

KNOWN = (
    Known(
        "XLA's convolutions on a CPU",
        "XLA's convolutions are slow on a CPU, in all three passes; its switches for other libraries changed nothing",
        ("convolution forward", "convolution input gradient", "convolution weight gradient"),
        f"{CPU_RESULTS}, what the profiles say",
        lambda slow, fast: _xla(slow) and not _xla(fast) and not slow.on_gpu,
    ),
    Known(
        "denormal numbers",
        "numbers too small for full precision are kept here and flushed to zero on the other side; a CPU computes "
        "several times more slowly with them",
        ("recurrent kernel", "matrix product", "element-wise", "optimizer"),
        f"{CPU_RESULTS}, allocator and denormal settings",
        lambda slow, fast: not slow.on_gpu and _denormals(slow) == {"kept"} and "kept" not in _denormals(fast),
    ),
    Known(
        "a loop over time steps",
        "the LSTM is a loop over time steps here, and one kernel of cuDNN on the other side",
        LOOP_PARTS,
        "https://github.com/jax-ml/jax/issues/13111",
        lambda slow, fast: slow.on_gpu and _has(fast, "recurrent kernel") and not _has(slow, "recurrent kernel"),
    ),
    Known(
        "a layout change around each convolution",
        "there are at least as many copies as convolutions, as where tensors change between channels first and "
        "channels last",
        ("copy and layout change",),
        "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
        _layout,
    ),
    Known(
        "a host copy of integer inputs",
        "TensorFlow keeps int32 tensors in the memory of the host, so operations on them copy to the device and back",
        ("copy and layout change", "idle", "embedding and gather", "host and launch overhead"),
        "https://github.com/tensorflow/tensorflow/issues/16106",
        _host_copies,
    ),
    Known(
        "XLA's overhead per operation in a loop",
        "on a CPU XLA runs each operation of a loop's body as a thunk of its own, so small ones cost mostly overhead",
        ("host and launch overhead", "idle", "element-wise", "copy and layout change"),
        "https://github.com/jax-ml/jax/issues/40150",
        _thunks,
    ),
    Known(
        "TensorFlow's loop over time steps",
        "TensorFlow's executor schedules each operation of a while loop anew in every time step, and the loop's "
        "results go through lists of tensors",
        ("host and launch overhead", "idle", "copy and layout change", "embedding and gather", "other"),
        "https://github.com/tensorflow/tensorflow/issues/9527",
        _tensor_lists,
    ),
    Known(
        "code that torch.compile generates for a CPU",
        "the code that torch.compile generates for pooling and for dropout's random numbers takes longer than "
        "PyTorch's own kernels",
        ("reduction and pooling", "random numbers and dropout"),
        f"{CPU_RESULTS}, compile modes",
        lambda slow, _: not slow.on_gpu and slow.row.cell.compile in ("compile", "max") and not _xla(slow),
    ),
)  # fmt: skip
