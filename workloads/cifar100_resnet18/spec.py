"""`cifar100_resnet18`: ResNet-18 (He et al., 2016) in the form that CIFAR images use.

A 3x3 convolution of stride 1 without pooling in front; four stages of two basic blocks, batch normalisation after every
convolution; the first block of the later stages halves height and width and has a 1x1 convolution in its shortcut;
global average pooling and a dense layer of 100. Softmax cross entropy; SGD with momentum and L2. For a GPU that the
small CNN cannot fill. Size ``full``: 11,220,132 parameters and 1.11 GFLOP forward per image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from workloads.spec import Bounds, Sgd, Tensor, WorkloadSpec, glorot_bound

IMAGE = (32, 32, 3)
CLASSES = 100
BLOCKS = 2  # per stage

#: The share of the batch in the running mean and variance (PyTorch's momentum; one minus Keras' and flax'), and the
#: constant under the root. The three frameworks' own defaults differ.
MOMENTUM = 0.1
EPSILON = 1e-5


@dataclass(frozen=True)
class Convolution:
    """One convolution with the batch normalisation after it; ``side`` is its output's height and width."""

    name: str
    kernel: int
    inputs: int
    outputs: int
    stride: int
    side: int


@dataclass(frozen=True)
class ResNetSpec(WorkloadSpec):
    """``channels`` per stage."""

    title = "CIFAR-100 ResNet-18"
    batch_normalised = True
    bounds: ClassVar = {
        "fp32": Bounds(5e-6, 5e-4, 3e-2, 0.1, 0.65),
        "bf16": Bounds(4e-3, 4e-2, 6.5e-2, 0.65, 0.9),
    }

    channels: tuple[int, ...]

    @property
    def proof_learning_rate(self) -> float:
        """A thousandth of the rate for 128 images: on eight, rounding errors would grow past use within ten steps."""
        return self.optimizer.learning_rate / 1000

    @property
    def stem(self) -> Convolution:
        return Convolution("stem", 3, IMAGE[2], self.channels[0], 1, IMAGE[0])

    @property
    def blocks(self) -> list[list[Convolution]]:
        """Every block's convolutions: two in a row, and where the shape changes a third in the shortcut."""
        blocks, inputs, side = [], self.channels[0], IMAGE[0]
        for stage, outputs in enumerate(self.channels, start=1):
            for block in range(1, BLOCKS + 1):
                stride = 2 if stage > 1 and block == 1 else 1
                side //= stride
                name = f"stage{stage}block{block}"
                convolutions = [
                    Convolution(f"{name}a", 3, inputs, outputs, stride, side),
                    Convolution(f"{name}b", 3, outputs, outputs, 1, side),
                ]
                if stride > 1 or inputs != outputs:
                    convolutions.append(Convolution(f"{name}shortcut", 1, inputs, outputs, stride, side))
                blocks.append(convolutions)
                inputs = outputs
        return blocks

    @property
    def convolutions(self) -> list[Convolution]:
        return [self.stem, *(convolution for block in self.blocks for convolution in block)]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        tensors = []
        for c in self.convolutions:
            shape = (c.kernel, c.kernel, c.inputs, c.outputs)
            # He et al. (2015), uniform, over the outputs: variance 2 / (kernel ** 2 * outputs).
            bound = math.sqrt(6 / (c.kernel**2 * c.outputs))
            tensors += [
                Tensor(f"{c.name}/kernel", shape, bound=bound),
                Tensor(f"{c.name}/scale", (c.outputs,), offset=1.0, offset_to=c.outputs),
                Tensor(f"{c.name}/shift", (c.outputs,)),
            ]
        features = self.channels[-1]
        tensors += [
            Tensor("logits/kernel", (features, CLASSES), bound=glorot_bound(features, CLASSES)),
            Tensor("logits/bias", (CLASSES,)),
        ]
        return tuple(tensors)

    @property
    def flops_by_kind(self) -> dict[str, int]:
        convolutions = sum(2 * c.side**2 * c.outputs * c.kernel**2 * c.inputs for c in self.convolutions)
        return {"convolution": convolutions, "matrix product": 2 * self.channels[-1] * CLASSES}


def specification(size: str = "full") -> ResNetSpec:
    """ResNet-18 (``full``), or one with an eighth of its channels for tests and slow CPUs (``small``)."""
    channels = {"full": (64, 128, 256, 512), "small": (8, 16, 32, 64)}[size]
    return ResNetSpec(
        name="cifar100_resnet18",
        size=size,
        data="cifar100",
        optimizer=Sgd(learning_rate=0.1, momentum=0.9, l2=5e-4),
        batch=128,
        channels=channels,
    )
