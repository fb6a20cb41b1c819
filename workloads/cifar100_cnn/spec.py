"""`cifar100_cnn`: the CIFAR-100 network of Elshawi et al., "DLBench" (Cluster Computing 24, 2021).

Three blocks of two 3x3 convolutions with ReLU (the first pads, the second does not), 2x2 max-pool and dropout after
each block; a dense layer of 1024 with ReLU and dropout; a dense layer of 100. Softmax cross entropy; SGD with momentum
and L2. Size ``full``: 6,777,060 parameters and 0.77 GFLOP forward per image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from workloads.spec import Bounds, DropoutBounds, Sgd, Tensor, WorkloadSpec, glorot_bound

IMAGE = (32, 32, 3)
CLASSES = 100
KERNEL = 3

#: Mean and standard deviation of the training images per channel, in units of 0 to 255.
MEAN = (129.3041656, 124.0699627, 112.4340501)
DEVIATION = (68.1702429, 65.3918080, 70.4183702)


@dataclass(frozen=True)
class CnnSpec(WorkloadSpec):
    """``channels`` and ``dropout`` per block; ``hidden`` units and ``hidden_dropout`` of the dense layer."""

    title = "CIFAR-100 CNN"
    study = "200 epochs: TensorFlow .407 (1:48 h), PyTorch .467 (2:14 h), Keras .552 (1:47 h)"
    study_differs = (
        "There, TensorFlow read planar images as interleaved ones, only PyTorch augmented and left a dropout on during "
        "the test, and only Keras decayed the learning rate. Here, all three train the same model on the same batches"
    )
    stages = True
    bounds: ClassVar = {
        "fp32": Bounds(5e-6, 5e-6, 1e-3, 2e-3, 0.13),
        "bf16": Bounds(2e-4, 1.5e-3, 6.5e-3, 0.25, 0.65),
    }
    # The spread in size small is that of 160 passes of 32 images in PyTorch (.2477), 96 in TensorFlow (.2478) and 96 in
    # JAX (.2468). A rate of .3 for .25 makes it .2633, .15 for .1 makes it .2562, .45 for .5 .2334, and .55 for .5 in
    # the dense layer .2668. In size full, of 100 passes in each framework: .1364 in PyTorch, .1362 in TensorFlow, .1361
    # in JAX. Layers were off each other by 0.013 at most, in both sizes.
    dropout_bounds = DropoutBounds({"": 0.2475, "small": 0.2475, "full": 0.1362}, scatter=0.025, apart=0.05)

    channels: tuple[int, ...]
    dropout: tuple[float, ...]
    hidden: int
    hidden_dropout: float

    @property
    def layers(self) -> list[tuple[str, int, int, int]]:
        """Every convolution: its name, input channels, output channels, and height (= width) of its output."""
        layers, side, inputs = [], IMAGE[0], IMAGE[2]
        for block, outputs in enumerate(self.channels, start=1):
            layers.append((f"conv{block}a", inputs, outputs, side))
            side -= KERNEL - 1
            layers.append((f"conv{block}b", outputs, outputs, side))
            side //= 2
            inputs = outputs
        return layers

    @property
    def features(self) -> int:
        """Length of the flattened output of the last block."""
        *_, (_, _, channels, side) = self.layers
        return (side // 2) ** 2 * channels

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        tensors = []
        for name, inputs, outputs, _ in self.layers:
            shape = (KERNEL, KERNEL, inputs, outputs)
            tensors += [
                Tensor(f"{name}/kernel", shape, bound=glorot_bound(KERNEL**2 * inputs, KERNEL**2 * outputs)),
                Tensor(f"{name}/bias", (outputs,)),
            ]
        tensors += [
            Tensor("hidden/kernel", (self.features, self.hidden), bound=glorot_bound(self.features, self.hidden)),
            Tensor("hidden/bias", (self.hidden,)),
            Tensor("logits/kernel", (self.hidden, CLASSES), bound=glorot_bound(self.hidden, CLASSES)),
            Tensor("logits/bias", (CLASSES,)),
        ]
        return tuple(tensors)

    @property
    def flops_by_kind(self) -> dict[str, int]:
        convolutions = sum(2 * side**2 * outputs * KERNEL**2 * inputs for _, inputs, outputs, side in self.layers)
        products = 2 * self.features * self.hidden + 2 * self.hidden * CLASSES
        return {"convolution": convolutions, "matrix product": products}


def specification(size: str = "full") -> CnnSpec:
    """The study's network (``full``), or a slim one for tests and slow CPUs (``small``)."""
    channels, hidden = {"full": ((128, 256, 512), 1024), "small": ((16, 32, 64), 128)}[size]
    return CnnSpec(
        name="cifar100_cnn",
        size=size,
        data="cifar100",
        optimizer=Sgd(learning_rate=0.01, momentum=0.5, l2=1e-6),
        batch=128,
        channels=channels,
        dropout=(0.1, 0.25, 0.5),
        hidden=hidden,
        hidden_dropout=0.5,
    )
