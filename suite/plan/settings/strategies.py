"""Which cells with several devices cannot be measured, whatever the machine, with the reason."""

from __future__ import annotations

from suite.catalog.frameworks import FRAMEWORKS, NOT_MEASURED
from suite.plan.cell import INTERFACES, STRATEGIES_OF, WORKLOADS, Cell
from workloads.lengths import FIXED
from workloads.spec import read_declaration

#: Why a cell for which `has_server` holds is not launched where others could connect; one sentence, which goes on.
SERVER = (
    "TensorFlow's {strategy} starts a server that listens on all interfaces, and whoever connects can read and write "
    "files by it"
)

#: The help of `--trusted-network`, which every command that launches takes.
TRUSTED = (
    "let TensorFlow start its server where it cannot have a network of its own: whoever reaches this machine can then "
    "read and write your files while a launch with --strategy multiworker or synchronised runs"
)

#: Workloads with batch normalisation, and the strategies that take its statistics over all devices. With the others
#: each device has statistics of its own: as good a training, and another one than one device's.
NORMALISED = tuple(name for name in WORKLOADS if read_declaration(name).batch_normalised)
WHOLE_BATCH = ("synchronised", "jit", "split")
OWN_STATISTICS = (
    "each device has running statistics of its own, of which an evaluation could take one device's only; train to the "
    "end on one device, or with JAX's jit"
)
NOT_NORMALISED = "has no batch normalisation to synchronise; leave out the strategy"
UNCOMPILED = "TensorFlow's strategies sum gradients outside of what XLA compiles; use the graph mode"
ONE_DEVICE = "XLA compiles what runs on one device; with split use the graph mode"
FLOAT32 = "DeepSpeed keeps the weights that its optimizer moves in float32"
FLAT = "DeepSpeed's optimizer moves all weights as one, and lars and lamb need the norms of each; use ddp"
STAGES = "a model that is split has two stages, with a device for each; ask for 2 devices"
#: Workloads whose layers PyTorch and TensorFlow can split: their files have a function `stages`.
STAGED = tuple(name for name in WORKLOADS if read_declaration(name).stages)


def measured_strategies(framework: str) -> list[str]:
    """The framework's strategies that are measured."""
    return [name for name in STRATEGIES_OF[framework] if name not in NOT_MEASURED]


def has_server(cell: Cell) -> bool:
    """Whether the cell's processes start a server that obeys whoever connects: TensorFlow's, which takes no address."""
    return cell.framework == "tensorflow" and cell.processes > 1


def has_local_statistics(cell: Cell) -> bool:
    """Whether the cell's devices normalise their samples apart from each other."""
    return cell.devices > 1 and read_declaration(cell.workload).batch_normalised and cell.strategy not in WHOLE_BATCH


def why_not_served(cell: Cell) -> str:
    """Why inference of a cell is not measured; empty where it is."""
    if cell.compile == "trace":
        return "inference is not measured by torch.jit.trace; leave infer out of --phases"
    if cell.interface != INTERFACES[0]:
        return f"inference is measured with the interface {INTERFACES[0]}; leave infer out of --phases"
    if cell.lengths != FIXED:
        return "inference is measured on batches of one length; leave infer out of --phases, or leave out --lengths"
    return "inference is measured on one device; leave infer out of --phases" if cell.devices > 1 else ""


def why_not_saved(cell: Cell) -> str:
    """Why checkpoints of a cell are not measured; empty where they are."""
    if cell.interface != INTERFACES[0]:
        return f"checkpoints are measured with the interface {INTERFACES[0]}; leave checkpoint out of --phases"
    if cell.lengths != FIXED:
        return "checkpoints are measured at one length; leave checkpoint out of --phases, or leave out --lengths"
    if cell.devices > 1 and (cell.framework, cell.strategy) != ("pytorch", "ddp"):
        return "checkpoints of several devices are measured in PyTorch with ddp; leave checkpoint out of --phases"
    return ""


def why_not_cached(cell: Cell) -> str:
    """Why a cell cannot start with the compile cache that it asks for; empty where it can, or asks for none."""
    own = FRAMEWORKS[cell.framework]
    if cell.cache and cell.compile not in own.cached:
        return f"{own.title} keeps no program of its mode {cell.compile}; use --compile {own.cached[0]}"
    if cell.cache and (cell.interface != INTERFACES[0] or cell.devices > 1 or cell.recipe):
        return f"--cache is a setting of one device, of the interface {INTERFACES[0]} and of steps that are timed"
    return ""


def why_not_measured(cell: Cell) -> str:
    """Why a cell with several devices is unsupported; empty if it may run."""
    if cell.devices == 1:
        return ""
    own = measured_strategies(cell.framework)
    tensorflow, strategy = cell.framework == "tensorflow", cell.strategy
    staged = strategy == "split" and cell.framework != "jax"
    deepspeed = strategy == "deepspeed"
    synchronised_torch = strategy == "synchronised" and cell.framework == "pytorch"
    reasons = (
        (strategy in NOT_MEASURED, NOT_MEASURED.get(strategy, "")),
        (strategy not in own, f"{cell.framework} has no strategy {strategy}; it has {', '.join(own)}"),
        (cell.compile == "trace", "torch.jit.trace is measured on one device; use eager or compile"),
        (cell.checkpointing == "on", "gradient checkpointing on several devices is not proved yet"),
        (cell.precision == "fp16", "the loss scale of fp16 on several devices is not proved yet; use bf16"),
        (bool(cell.recipe) and has_local_statistics(cell), OWN_STATISTICS),
        (
            strategy == "synchronised" and cell.workload in WORKLOADS and cell.workload not in NORMALISED,
            f"{cell.workload} {NOT_NORMALISED}",
        ),
        (synchronised_torch and cell.compile != "eager", "SyncBatchNorm is measured in eager mode"),
        (tensorflow and cell.compile != "graph", ONE_DEVICE if staged else UNCOMPILED),
        (strategy == "jit" and cell.accumulate > 1, "jit would exchange batches to accumulate; use shard-map"),
        (strategy == "fsdp" and cell.compile != "eager", "FSDP2 is measured in eager mode; torch.compile with ddp"),
        (deepspeed and cell.precision == "fp64", FLOAT32),
        (deepspeed and cell.recipe in ("lars", "lamb"), FLAT),
        (deepspeed and cell.compile != "eager", "DeepSpeed is measured in eager mode; torch.compile with ddp"),
        (staged and cell.compile not in ("eager", "graph"), "split is measured in eager mode; torch.compile with ddp"),
        (staged and cell.devices != 2, STAGES),
        (
            staged and not read_declaration(cell.workload).stages,
            f"{cell.workload} names no stages; {', '.join(STAGED)} do",
        ),
    )
    return next((reason for applies, reason in reasons if applies), "")
