"""`cifar100_cnn` in PyTorch: channels-last memory, through a view that the other frameworks do not need.

Images come as (batch, height, width, channel). Seen through `permute` they are (batch, channel, height, width) in
channels-last memory, so nothing is copied; the same view back before flattening keeps the canonical feature order.
Asked for, the images are copied into channels-first memory, where the weights then lie too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.defaults.pytorch import export_weights, import_weights, kernels, loss, recompute, scores
from workloads.spec import Numbers

__all__ = ("Cnn", "build", "export_weights", "import_weights", "kernels", "loss", "scores", "stages")

#: Layers of a block.
LAYERS = 6
#: Layers of the first of two stages: up to the first convolution of the second block and its ReLU. In the full size
#: these have 405 of 770 MFLOP.
FIRST_STAGE = LAYERS + 2


class Cnn(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    def __init__(
        self, spec: CnnSpec, dropout: bool, dtype: torch.dtype, *, checkpointing: bool = False,
        channels_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.channels_first = channels_first
        self.register_buffer("mean", torch.tensor(MEAN, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        layers = iter(spec.layers)
        blocks: list[nn.Module] = []
        checkpointed: list[Callable[[Tensor], Tensor]] = []
        for rate in spec.dropout:
            (_, inputs, outputs, _), _ = next(layers), next(layers)
            blocks += [
                nn.Conv2d(inputs, outputs, KERNEL, padding=1, dtype=dtype),
                nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, KERNEL, dtype=dtype),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
                nn.Dropout(rate if dropout else 0),
            ]
            checkpointed.append(recompute(nn.Sequential(*blocks[-LAYERS:]), draws=dropout))
        self.blocks = nn.Sequential(*blocks)
        self.checkpointed = checkpointed if checkpointing else []
        self.hidden = nn.Linear(spec.features, spec.hidden, dtype=dtype)
        self.dropout = nn.Dropout(spec.hidden_dropout if dropout else 0)
        self.logits = nn.Linear(spec.hidden, CLASSES, dtype=dtype)
        convolutions = (f"blocks.{n}" for n, layer in enumerate(blocks) if isinstance(layer, nn.Conv2d))
        self.canonical_names = dict(zip(convolutions, (name for name, *_ in spec.layers), strict=True))

    def forward(self, images: Tensor) -> Tensor:
        x = self.normalise(images)
        for block in self.checkpointed or [self.blocks]:
            x = block(x)
        return self.classify(x)

    def normalise(self, images: Tensor) -> Tensor:
        """The images, channels second: (batch, 3, 32, 32)."""
        images = images.permute(0, 3, 1, 2)
        return ((images.contiguous() if self.channels_first else images) - self.mean) / self.deviation

    def classify(self, x: Tensor) -> Tensor:
        """The logits from the output of the last block."""
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.logits(self.dropout(F.relu(self.hidden(x))))


def build(
    spec: CnnSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False, channels_first: bool = False,
) -> Cnn:  # fmt: skip
    """The model in training mode, its weights not yet set. Compute types other than the weights' come by autocast."""
    dtype = getattr(torch, numbers.weights)
    model = Cnn(spec, dropout, dtype, checkpointing=checkpointing, channels_first=channels_first)
    memory_format = torch.contiguous_format if channels_first else torch.channels_last
    return model.to(device=device, memory_format=memory_format)


def stages(model: Cnn) -> list[tuple[list[nn.Module], Callable[[Tensor], Tensor]]]:
    """Two stages of about as many FLOPs: the layers of each, and what it computes; channels come last between them."""
    first, second = model.blocks[:FIRST_STAGE], model.blocks[FIRST_STAGE:]

    def begin(images: Tensor) -> Tensor:
        return first(model.normalise(images)).permute(0, 2, 3, 1).contiguous()

    def end(x: Tensor) -> Tensor:
        return model.classify(second(x.permute(0, 3, 1, 2)))

    return [([first], begin), ([second, model.hidden, model.dropout, model.logits], end)]
