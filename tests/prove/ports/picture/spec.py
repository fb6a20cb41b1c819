"""Images to grey ones: a convolution, batch normalisation, a transposed convolution, layer and weight normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from workloads.spec import RmsProp, Tensor, WorkloadSpec

CHANNELS, EPSILON, MOMENTUM = 6, 1e-5, 0.1


@dataclass(frozen=True)
class Spec(WorkloadSpec):
    batch_normalised: ClassVar = True

    @property
    def tensors(self):
        c = CHANNELS
        return (
            Tensor("down/kernel", (3, 3, 3, c), 0.3),
            Tensor("middle/scale", (c,), offset=1.0, offset_to=c),
            Tensor("middle/bias", (c,)),
            Tensor("up/kernel", (4, 4, 4, c), 0.3),
            Tensor("up/bias", (4,)),
            Tensor("norm/scale", (4,), offset=1.0, offset_to=4),
            Tensor("norm/bias", (4,)),
            Tensor("grey/kernel", (1, 1, 4, 2), 0.5),
            Tensor("grey/scale", (2,), offset=1.0, offset_to=2),
            Tensor("grey/bias", (2,)),
        )

    @property
    def flops_per_sample(self):
        return 2 * 16 * 9 * 3 * CHANNELS + 2 * 16 * 16 * 4 * CHANNELS


def specification(size="full"):
    return Spec("own_picture", size, "own", RmsProp(0.01, momentum=0.9, l2=1e-2, clip_value=0.01), 8)
