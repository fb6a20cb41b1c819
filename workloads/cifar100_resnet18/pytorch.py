"""`cifar100_resnet18` in PyTorch: channels-last memory, or channels-first where asked for, `nn.BatchNorm2d`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.cifar100_cnn.spec import DEVIATION, MEAN
from workloads.cifar100_resnet18.spec import CLASSES, EPSILON, MOMENTUM, Convolution, ResNetSpec
from workloads.defaults.pytorch import export_weights, import_weights, kernels, loss, recompute, scores
from workloads.spec import Numbers

__all__ = ("ResNet", "build", "export_weights", "import_weights", "kernels", "loss", "scores")


class Normalised(nn.Module):
    """A convolution and the batch normalisation after it."""

    def __init__(self, c: Convolution, dtype: torch.dtype) -> None:
        super().__init__()
        self.name = c.name
        self.convolution = nn.Conv2d(
            c.inputs, c.outputs, c.kernel, c.stride, padding=c.kernel // 2, bias=False, dtype=dtype
        )
        self.normalisation = nn.BatchNorm2d(c.outputs, eps=EPSILON, momentum=MOMENTUM, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.normalisation(self.convolution(x))


class Block(nn.Module):
    """Two normalised convolutions beside a shortcut."""

    def __init__(self, convolutions: list[Convolution], dtype: torch.dtype) -> None:
        super().__init__()
        self.first, self.second, *rest = (Normalised(c, dtype) for c in convolutions)
        self.shortcut = rest[0] if rest else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    def __init__(
        self, spec: ResNetSpec, dtype: torch.dtype, checkpointing: bool = False, channels_first: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        self.channels_first = channels_first
        self.register_buffer("mean", torch.tensor(MEAN, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        self.stem = Normalised(spec.stem, dtype)
        self.blocks = nn.Sequential(*(Block(block, dtype) for block in spec.blocks))
        self.checkpointed = [recompute(block, draws=False) for block in self.blocks] if checkpointing else []
        self.logits = nn.Linear(spec.channels[-1], CLASSES, dtype=dtype)
        self.canonical_names: dict[str, str] = {}
        for path, layer in self.named_modules():
            if isinstance(layer, Normalised):
                own = {f"{path}.convolution": layer.name, f"{path}.normalisation": layer.name}
                self.canonical_names |= own | {f"{path}.normalisation.bias": f"{layer.name}/shift"}

    def forward(self, images: Tensor) -> Tensor:
        images = images.permute(0, 3, 1, 2)
        x = ((images.contiguous() if self.channels_first else images) - self.mean) / self.deviation
        x = F.relu(self.stem(x))
        for block in self.checkpointed or [self.blocks]:
            x = block(x)
        return self.logits(x.mean((2, 3)))


def build(
    spec: ResNetSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False, channels_first: bool = False,
) -> ResNet:  # fmt: skip
    """The model in training mode, its weights not yet set; it has no dropout to switch off."""
    model = ResNet(spec, getattr(torch, numbers.weights), checkpointing, channels_first)
    memory_format = torch.contiguous_format if channels_first else torch.channels_last
    return model.to(device=device, memory_format=memory_format)
