"""`image`: two convolutions, a batch normalisation, three dense layers; small enough to be proved in a moment."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.spec import Sgd, Tensor, WorkloadSpec

SIDE, CLASSES, RATE, EPSILON, MOMENTUM = 8, 3, 0.25, 1e-5, 0.1


@dataclass(frozen=True)
class Spec(WorkloadSpec):
    """As the files of the frameworks have it."""

    dropout: tuple[float, ...] = (RATE,)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (
            Tensor("conv1/kernel", (3, 3, 3, 4), bound=0.3),
            Tensor("conv1/bias", (4,)),
            Tensor("conv2/kernel", (3, 3, 4, 4), bound=0.3),
            Tensor("norm/scale", (4,), offset=1.0, offset_to=4),
            Tensor("norm/shift", (4,)),
            Tensor("hidden/kernel", (64, 8), bound=0.3),
            Tensor("hidden/bias", (8,)),
            Tensor("middle/kernel", (8, 8), bound=0.6),
            Tensor("middle/bias", (8,)),
            Tensor("logits/kernel", (8, CLASSES), bound=0.6),
            Tensor("logits/bias", (CLASSES,)),
        )

    @property
    def flops_per_sample(self) -> int:
        return 2 * (64 * 27 * 4 + 16 * 36 * 4 + 64 * 8 + 64 + 8 * CLASSES)


def specification(size: str = "full") -> Spec:
    return Spec("own_image", size, "own", Sgd(0.05, momentum=0.9, l2=1e-4), 16)
