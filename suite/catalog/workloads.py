"""The suite's own workloads."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The names of workloads from outside of the repository (`workloads.registry`). A stored one imports nothing.
OWN_WORKLOAD = re.compile(r"own_[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Workload:
    """A workload with its name in sentences, and the kernels that it can choose besides the framework's own."""

    name: str
    title: str
    kernels: tuple[str, ...] = ()


_ALL = (
    Workload("cifar100_cnn", "CIFAR-100 CNN"),
    Workload("cifar100_resnet18", "CIFAR-100 ResNet-18"),
    Workload("imdb_lstm", "IMDB LSTM", kernels=("cudnn", "scan")),
    Workload("imdb_transformer", "IMDB Transformer", kernels=("fused", "plain")),
)

#: By name, in the order of tables.
WORKLOADS = {each.name: each for each in _ALL}
