"""How far results of frameworks that compute the same may differ, and the measurements that these bounds are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from suite.plan.cell import OWN_WORKLOAD
from workloads.spec import WORKLOADS, Bounds, read_declaration

#: Steps of a fingerprint: now, in fp16, and of older ones.
STEPS = (2, 4, 6, 10)

#: What is smaller than this counts as this much, where it is divided by.
TINY = 1e-12

#: Losses up to this step, and updates of so many steps, show the backward pass and the optimizer before training
#: amplifies every rounding; the first loss is the forward pass alone, and shows a wrong layout, input or kernel.
EARLY_LOSSES, EARLY_UPDATES = 4, 2

#: A tensor that does not move is off by 1.
LARGEST_UPDATE = 0.9

#: What a tensor moves in training steps, in shares of the largest movement of the model, if rounding alone moves it. Of
#: the suite's own workloads none moves by less than .0006 (`results/runs`). In ports, gradients that are zero by
#: mathematics were 1e-17 to 3e-16 in float64 beside a largest of 1, which Adam divides by its epsilon of 1e-8.
STILL = 1e-6

# The bounds that each workload's spec declares are ten times the largest deviation between any two of the frameworks,
# rounded up, as `tests/studies/tolerances.py` found and lists them.
# In bf16 the CNN's updates, and all of ResNet-18's figures, have five times what was measured, as ten times
# would let anything pass; its early updates have 2.5 times, and its late ones .9, which shows a tensor that does not
# move. The first loss has more, for GPUs' kernels, which were not measured; a wrong layout moved it by 1e-5 to 4e-3.
# The late figures of the CNNs are larger since a max-pool's or a ReLU's choice between two almost equal values turns
# with the last bit and moves a gradient by 1e-3. In float64 all are below 1e-12; 1e-9 is what the project promises.
# Planted in float32: momentum .45 for .5 moves early updates by 4e-2, 1 % more learning rate by 1e-2, TF32 by 9e-3.
EXACT = Bounds(*5 * (1e-9,))
# TF32 and float16 need a GPU, and have bounds from bf16's until they are measured there. Inputs of 11 bits where bf16
# has 8 err by an eighth; a quarter leaves some slack, and holds what `tests/studies/rounding.py` (in git) found.
SHARE_OF_BF16 = 1 / 4

NUMBERS = ("first_loss", "early_losses", "losses", "early_updates", "updates")
EARLY = ("early_losses", "early_updates")


def _scale(bounds: Bounds, factor: float, names: tuple[str, ...] = NUMBERS) -> Bounds:
    scaled = {name: factor * getattr(bounds, name) for name in names}
    limited = {name: min(bound, LARGEST_UPDATE) for name, bound in scaled.items() if name.endswith("updates")}
    return replace(bounds, **scaled | limited, provisional=True)


def loss_bound(bounds: Bounds, step: int) -> float:
    if step == 1:
        return bounds.first_loss
    return bounds.early_losses if step <= EARLY_LOSSES else bounds.losses


def _every(declared: Mapping[str, Bounds]) -> dict[str, Bounds]:
    narrow = declared.get("bf16")
    derived = {precision: _scale(narrow, SHARE_OF_BF16) for precision in ("tf32", "fp16")} if narrow else {}
    return {"fp64": EXACT, **derived, **declared}


TOLERANCE = {
    (name, precision): bounds
    for name in WORKLOADS
    for precision, bounds in _every(read_declaration(name).bounds).items()
}

#: Precisions whose updates were measured at other batches than the fingerprint's. In bf16 the LSTM's logits/bias, whose
#: gradient is a small difference of large numbers, was off by .5 there once (size small, batch 16). Usually it is not:
#: of two seeds each, early updates were off by at most .014 (LSTM, batch 16 and 32 small, 16 full), .056 (CNN) and .36
#: (ResNet-18; both small, 16 and 32), late ones by .14, .13 and .48. Seven cells do not show how rare the exception is,
#: so only a tensor that does not move is noticed by its update, and wrong losses by theirs.
MEASURED_AT_OTHER_BATCHES = ("fp32", "fp64")

#: cuDNN may take Winograd's convolution, whose error was simulated to be 1.6e-6 where a direct one's is 1e-7.
GPU_SLACK = 16.0

#: The largest relative deviation of an update in float64 from the optimizer's formula.
OPTIMIZER = 1e-9

#: The same in the cell's own precision and at its batch, besides the rounding of the weights.
OWN_OPTIMIZER = 1e-4

#: By how many times as much as its second one a fresh model's first replay of the last steps may be off: that is 0 on a
#: CPU that repeats itself, where nothing may differ, and in no stored launch did. Of older records, in which the bound
#: had to hold for a GPU too: the deviation itself.
SCATTERED, REPLAYED = 10.0, 1e-2

#: How far the probabilities of all labels of a test sample may be off 1 in sum, and its loss off that of a fresh model
#: with the trained weights: on a CPU the first was 1e-7 at most, and the second 0. A GPU may choose other kernels.
TOTAL, EVALUATED = 1e-4, 1e-4
#: The mean loss in evaluation off that in fp32. In bf16 the CNN's was 1e-6 (size small, one epoch of 250).
EVALUATED_COARSELY = 0.05

#: How far a loss that follows from an answer may be off the evaluation's in fp32 and fp64; in coarser precisions, where
#: a batch of another size rounds otherwise, the last bound holds.
ANSWERED = 1e-4

#: How many times as much as with independent masks the mean logits of a batch may vary over draws.
SHARED = 4.0

#: How far, relatively, the mean spread of a cell's dropout may be off its bound, besides the scatter of a launch, which
#: is divided by the root of their number: frameworks are apart by so much.
DROPOUT_APART = 0.005
#: How far, relatively, gradient checkpointing may move a gradient. On a CPU it moves none by a bit, but in JAX,
#: where XLA rounds otherwise: the Transformer by 4e-7 in fp32, ResNet-18 by .018 in bf16; on a GPU nothing is measured.
#: Other dropout masks move it by about 1.
RECOMPUTED = 0.05


def tolerance_of(workload: str, precision: str, cuda: bool, evidence: str = "fingerprint") -> Bounds | None:
    """The bounds on evidence of this name (see `suite.analysis.identity.verdicts.COMPARED`)."""
    if evidence in ("float64", "evaluation", "inference"):
        return EXACT
    if evidence == "dropout":
        return replace(EXACT, early_updates=read_declaration(workload).dropout_bounds.apart)
    bounds = (
        _of_outside(workload, precision) if OWN_WORKLOAD.fullmatch(workload) else TOLERANCE.get((workload, precision))
    )
    if bounds and cuda and precision != "fp64":
        bounds = _scale(bounds, GPU_SLACK, EARLY)
    if bounds and evidence == "own" and precision not in MEASURED_AT_OTHER_BATCHES:
        bounds = replace(bounds, early_updates=LARGEST_UPDATE)
    return bounds


def _of_outside(workload: str, precision: str) -> Bounds | None:
    declared = read_declaration(workload).bounds.get(precision)
    own = [bounds for (_, other), bounds in TOLERANCE.items() if other == precision]
    if declared or not own:
        return declared
    widest = {name: max(getattr(bounds, name) for bounds in own) for name in NUMBERS}
    return Bounds(**widest, provisional=precision != "fp64")


def relative(value: float, reference: float) -> float:
    """How far a number is off its reference, in shares of that."""
    return abs(value - reference) / max(abs(reference), TINY)
