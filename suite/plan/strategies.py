"""Which cells with several devices cannot be measured, whatever the machine, with the reason."""

from __future__ import annotations

from suite.plan.cell import STRATEGIES_OF, Cell

#: Strategies that are known by name.
NOT_MEASURED = {
    "deepspeed": "DeepSpeed clips gradients by default and refuses channels-last weights; it is not measured yet",
    "horovod": "Horovod's last release (0.28.1, June 2023) does not build against PyTorch 2.13",
}

NORMALISED = (
    "batch normalisation has statistics of its own on each device, which is not the same training as one device's; "
    "cifar100_resnet18 is measured on one device"
)
UNCOMPILED = "TensorFlow's strategies sum gradients outside of what XLA compiles; use the graph mode"
ONE_DEVICE = "XLA compiles what runs on one device; with split use the graph mode"
STAGES = "a model that is split has two stages, with a device for each; ask for 2 devices"
#: Workloads whose layers PyTorch and TensorFlow can split: their files have a function `stages`.
STAGED = ("cifar100_cnn", "imdb_lstm")


def measured_of(framework: str) -> list[str]:
    """The framework's strategies that are measured, the usual one first."""
    return [name for name in STRATEGIES_OF[framework] if name not in NOT_MEASURED]


def not_measured(cell: Cell) -> str:
    """Why a cell with several devices is unsupported; empty if it may run."""
    if cell.devices == 1:
        return ""
    own = measured_of(cell.framework)
    tensorflow, strategy = cell.framework == "tensorflow", cell.strategy
    staged = strategy == "split" and cell.framework != "jax"
    reasons = (
        (strategy in NOT_MEASURED, NOT_MEASURED.get(strategy, "")),
        (strategy not in own, f"{cell.framework} has no strategy {strategy}; it has {', '.join(own)}"),
        (cell.checkpointing == "on", "gradient checkpointing on several devices is not proved yet"),
        (cell.precision == "fp16", "the loss scale of fp16 on several devices is not proved yet; use bf16"),
        (cell.workload == "cifar100_resnet18", NORMALISED),
        (tensorflow and cell.compile != "graph", ONE_DEVICE if staged else UNCOMPILED),
        (strategy == "jit" and cell.accumulate > 1, "jit would exchange batches to accumulate; use shard-map"),
        (strategy == "fsdp" and cell.compile != "eager", "FSDP2 is measured in eager mode; torch.compile with ddp"),
        (staged and cell.compile not in ("eager", "graph"), "split is measured in eager mode; torch.compile with ddp"),
        (staged and cell.devices != 2, STAGES),
        (staged and cell.workload not in STAGED, f"{cell.workload} names no stages; {', '.join(STAGED)} do"),
    )
    return next((reason for applies, reason in reasons if applies), "")
