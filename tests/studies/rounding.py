"""``python -m tests.studies.rounding``: how far do inputs of 11 bits move a fingerprint?

TF32 and float16 cannot be run on a CPU. This trains a workload in PyTorch twice from the same weights on the same
batches: as it is, and with what every convolution and product takes in, forward and backward, rounded to so many bits
of significand. What it moves is no spread between frameworks, which all round, but an upper estimate of it. The
provisional bounds of `suite.analysis.identity.tolerances` are held against its figures.

On a CPU, size small:

                             seeds  first loss  to step 4  to step 10  updates early    late
  cifar100_cnn                  3      1.5e-5     2.7e-5     3.8e-4      4.3e-2          5.9e-2
  cifar100_resnet18             2      2.3e-4     1.4e-4     2.8e-4      1.4e-1          2.0e-1
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from suite.plan.cell import SIZES
from suite.worker.evidence.fingerprint import BATCH, SEED, movement
from tests.frameworks import Found, batches, compute, training
from workloads.data.cache import open_cached
from workloads.data.prepare import prepare
from workloads.spec import specification

#: The workloads whose layers are plain functions; PyTorch's LSTM is one function, and its inside out of reach.
WORKLOADS = ("cifar100_cnn", "cifar100_resnet18")
BITS, STEPS = 11, 10


def rounded(array: torch.Tensor) -> torch.Tensor:
    """To the nearest number of `BITS` bits of significand."""
    significand, exponent = torch.frexp(array)
    return torch.ldexp(torch.round(significand * 2**BITS) / 2**BITS, exponent)


class _Rounded(torch.autograd.Function):
    """Rounds on the way forward and leaves the gradient; or the other way round."""

    @staticmethod
    def forward(ctx: Any, array: torch.Tensor, there: bool) -> torch.Tensor:
        ctx.there = there
        return rounded(array) if there else array.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient if ctx.there else rounded(gradient), None


class Rounding(TorchFunctionMode):
    """Within it convolutions and products round what they take in."""

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function not in (torch.nn.functional.linear, torch.conv2d, torch.nn.functional.conv2d):
            return function(*args, **(kwargs or {}))
        inputs, weight, *rest = args
        result = function(_Rounded.apply(inputs, True), _Rounded.apply(weight, True), *rest, **(kwargs or {}))
        return _Rounded.apply(result, False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.studies.rounding")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    spec = specification(options.workload, options.size)
    data = open_cached(prepare(spec.data))
    for seed in range(SEED, SEED + options.seeds):
        weights, source = spec.reference_weights(seed), batches(spec, BATCH, seed, data)

        def trained(weights: Any = weights, source: Any = source) -> Found:
            with training(spec.name, "pytorch", "fp32", spec.size, weights=weights) as running:
                return compute(running, source, STEPS)

        plain = trained()
        with Rounding():
            coarse = trained()
        losses = [abs(a / b - 1) for a, b in zip(coarse.losses, plain.losses, strict=True)]
        early = _apart(movement(plain.before, plain.early), movement(coarse.before, coarse.early))
        late = _apart(movement(plain.before, plain.after), movement(coarse.before, coarse.after))
        print(
            f"seed {seed}: first loss {losses[0]:.1e}, losses to step 4 {max(losses[1:4]):.1e}, "
            f"to step {STEPS} {max(losses):.1e}, early updates {early:.1e}, updates {late:.1e}"
        )


def _apart(one: dict[str, float], other: dict[str, float]) -> float:
    return max(abs(one[name] / other[name] - 1) for name in one)


if __name__ == "__main__":
    main()
