"""The spec's optimizers in PyTorch, whose own have their formulas, as fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.worker.frameworks.pytorch import layerwise as pytorch_layerwise
from workloads.spec import LAYERWISE, AdamW, Sgd, WorkloadSpec


def optimizer(spec: WorkloadSpec, parameters: list[Tensor], fused: bool = True) -> torch.optim.Optimizer:
    """The spec's optimizer of these parameters, at its one learning rate."""
    config = spec.optimizer
    if isinstance(config, LAYERWISE):
        return pytorch_layerwise.optimizer(config, parameters)
    if isinstance(config, Sgd):
        return torch.optim.SGD(
            parameters, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.l2, fused=fused
        )
    adam = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "eps": config.epsilon, "fused": fused}
    if isinstance(config, AdamW):
        groups = [
            {"params": [parameter for parameter in parameters if parameter.ndim > 1], "weight_decay": config.decay},
            {"params": [parameter for parameter in parameters if parameter.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, **adam)
    return torch.optim.Adam(parameters, **adam)
