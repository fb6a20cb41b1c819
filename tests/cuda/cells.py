"""The cells that the CUDA tests launch, in one place, so that one launch serves many tests.

``SUITE_CUDA_REHEARSE=cpu`` runs a few small ones on a CPU instead, to try the tests themselves.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from suite.plan.cell import FRAMEWORKS, PRECISIONS, WORKLOADS, Cell, Loader
from suite.plan.measuring import Plan

REHEARSAL = os.environ.get("SUITE_CUDA_REHEARSE", "")
DEVICE = REHEARSAL or "cuda"

PLAN = Plan(min_window_s=0.2, windows=2, max_warmup_s=0.3 if REHEARSAL else 1.0)
SIZE = "small" if REHEARSAL else "full"
BATCH = 32 if REHEARSAL else 128
TRAIN, TEST = 2048, 256  # samples of the synthetic twins

#: Workload, precision and size that are held against each other: full where the tolerances matter most.
COMPARED = (
    (("cifar100_cnn", "fp64", "small"), ("imdb_lstm", "fp32", "small"))
    if REHEARSAL
    else tuple(
        (workload, precision, "full" if precision in ("fp32", "bf16") else "small")
        for precision in ("fp32", "bf16", "tf32", "fp16", "fp64")
        for workload in WORKLOADS
    )
)

#: Precisions whose products, convolutions and peaks are probed one after the other, float64 last.
PROBED = ("fp32", "bf16", "fp64") if REHEARSAL else PRECISIONS

#: The LSTM's kernels that are held against each other, and in whose launches; a CPU has no cuDNN.
KERNELS = ("auto", "scan") if REHEARSAL else ("cudnn", "scan")
KERNELS_OF = ("jax",) if REHEARSAL else FRAMEWORKS

#: A workload with two batches between which the allocator's peak must grow, and one fingerprint for both.
GROWN, SMALLER, LARGER = ("imdb_lstm" if REHEARSAL else "cifar100_cnn"), BATCH // 4, BATCH
GROWN_OF = ("pytorch",) if REHEARSAL else FRAMEWORKS

#: Compile modes against each framework's usual one: framework, mode, precision.
COMPILED = (
    *(("pytorch", mode, precision) for mode in ("compile", "max") for precision in ("fp32", "tf32", "bf16")),
    ("tensorflow", "compile", "fp32"),
)
COMPILED = COMPILED[-1:] if REHEARSAL else COMPILED

#: Workloads and frameworks of the run that is measured and compared as users do it.
MATRIX = (("cifar100_cnn",) if REHEARSAL else ("cifar100_cnn", "imdb_lstm"), ("pytorch", "jax"))

#: Workloads whose trained models serve, and how: a 99th percentile takes 1,000 requests.
SERVED = ("imdb_lstm", "gpt_small") if REHEARSAL else ("cifar100_cnn", "imdb_lstm", "gpt_small")
SERVED_BY = ("pytorch", "jax") if REHEARSAL else FRAMEWORKS
SERVING = replace(PLAN, phases=("train", "infer"), chosen=True, requests=60 if REHEARSAL else 1000)

#: Ways to load that must deliver the same bytes; None leaves the choice to the loader.
LOADERS = {
    "naive": Loader("naive"),
    "tuned": Loader(),
    "pinned": Loader("tuned", pin_memory=True),
    "unpinned": Loader("tuned", pin_memory=False),
    "workers": Loader("workers", 2),
    "workers-pinned": Loader("workers", 2, pin_memory=True),
    "resident": Loader("resident"),
}

#: What another process leaves of the device's memory, and a batch that does not fit into that: one output of the first
#: block takes 8.4 GB in float32. It has fewer than 2**31 values, which cuDNN counts by.
LEFT_BYTES = 12 * 2**30
ABSURD_BATCH = 16_000


def compared(workload: str, precision: str, size: str) -> tuple[Cell, ...]:
    """The same cell in every framework."""
    return tuple(_cell(workload, framework, precision=precision, size=size) for framework in FRAMEWORKS)


def grown(framework: str) -> tuple[Cell, Cell]:
    """A workload in float32 with the smaller and the larger batch."""
    one = _cell(GROWN, framework, batch=SMALLER)
    return one, one.but(batch=LARGER)


def allocated(framework: str, allocator: str) -> Cell:
    """The slim CNN in float32 with an allocator of the GPU's memory."""
    return _cell("cifar100_cnn", framework, size="small", allocator=allocator)


def checkpointed(framework: str) -> tuple[Cell, Cell]:
    """The slim CNN in float32 without and with gradient checkpointing, with a batch whose activations outweigh it."""
    usual = _cell("cifar100_cnn", framework, size="small", batch=LARGER)
    return usual, usual.but(checkpointing="on")


def served(workload: str, framework: str) -> Cell:
    """A workload in float32 whose model serves after training."""
    return _cell(workload, framework)


def kernels(framework: str) -> tuple[Cell, ...]:
    """The LSTM in float32 with each of its kernels."""
    return tuple(_cell("imdb_lstm", framework, kernel=kernel) for kernel in KERNELS)


def compiled(framework: str, mode: str, precision: str) -> tuple[Cell, Cell]:
    """The slim CNN in the framework's usual compile mode and in another; it compiles in a fraction of the time."""
    usual = _cell("cifar100_cnn", framework, precision=precision, size="small")
    return usual, usual.but(compile=mode)


def _cell(workload: str, framework: str, **settings: Any) -> Cell:
    """With the data on the device, so that launches that run together need no worker processes."""
    return Cell(workload, framework, **{"batch": BATCH, "size": SIZE, "loader": Loader("resident"), **settings})


def cost(cell: Cell) -> tuple[bool, bool, bool]:
    """Larger for what takes longer to launch: that begins last, so that a budget shows as much as it can."""
    return cell.compile == "max", cell.compile == "compile" and cell.framework == "pytorch", cell.framework == "jax"
