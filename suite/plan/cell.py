"""One cell of a matrix: every setting of one measured training run, as a value.

A cell is hashable, has a readable id for ``pytest -k``, and travels as JSON.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, zip_longest
from typing import Annotated, Any

from msgspec import Meta

from suite.plan.schema import SchemaError, decode
from suite.plan.suggest import unknown
from workloads import registry
from workloads.spec import read_declaration

WORKLOADS = registry.WORKLOADS
#: The names of workloads from outside of the repository (`workloads.registry`). A stored one imports nothing.
OWN_WORKLOAD = re.compile(r"own_[a-z][a-z0-9_]{0,39}")
FRAMEWORKS = ("pytorch", "tensorflow", "jax")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp64")
COMPILES = ("eager", "graph", "compile", "max", "nographs")
#: The kernels of each workload that has a choice, besides ``auto``, the framework's own.
KERNELS_OF = {name: kernels for name in WORKLOADS if (kernels := read_declaration(name).kernels)}
KERNELS = ("auto", *(kernel for kernels in KERNELS_OF.values() for kernel in kernels))
LOADERS = ("naive", "workers", "tuned", "resident", "dali")
SIZES = ("full", "small")
RECIPES = ("", "study", "modern", "no-dropout", "linear", "lars", "lamb")
CHECKPOINTINGS = ("off", "on")
ALLOCATORS = ("default", "cudaMallocAsync", "expandable", "preallocated", "unified")
#: The free switches of a CPU (see `suite.plan.tunings`), from none to all that are known to help.
TUNINGS = ("installed", "memory", "arenas", "denormals", "tcmalloc", "known")
#: What drives a training: the suite's own loop in the framework, or Keras on it, by `train_on_batch` or by `fit`.
INTERFACES = ("native", "keras", "keras-fit", "nnx", "lightning")

#: The strategies by which several devices train one model, of each framework; first the one with a process for each
#: device. Those that `suite.plan.strategies` does not measure end as unsupported, with the reason.
STRATEGIES_OF = {
    "pytorch": ("ddp", "fsdp", "deepspeed", "horovod", "split", "synchronised"),
    "tensorflow": ("multiworker", "mirrored", "horovod", "split", "synchronised"),
    "jax": ("shard-map", "jit", "local", "split"),
}
#: All of them, so that each framework's stand in its own order.
STRATEGIES = tuple(dict.fromkeys(filter(None, chain.from_iterable(zip_longest(*STRATEGIES_OF.values())))))
#: The strategy that an id leaves out, and that rows are compared with where several were measured.
REFERENCE_STRATEGY = {framework: names[0] for framework, names in STRATEGIES_OF.items()}
#: What a cell gets that names none. TensorFlow's reference starts a server that obeys whoever connects.
USUAL_STRATEGY = REFERENCE_STRATEGY | {"tensorflow": "mirrored"}

#: Strategies that run all devices of a host in one process; the others have a process for each device.
IN_ONE_PROCESS = (("tensorflow", "mirrored"), ("tensorflow", "split"), ("jax", "local"), ("jax", "split"))

#: Strategies that divide the model over the devices, all of which see every sample; the others divide the samples.
MODEL_DIVIDED = ("split",)

#: Parts of a loader's id, with the setting and the value that each stands for.
LOADER_SWITCHES = {
    "pinned": ("pin_memory", True),
    "unpinned": ("pin_memory", False),
    "cached": ("cache", True),
    "mapped": ("cache", False),
}

#: Stands for the largest batch that fits, which `suite.session.launches.batch_finder` searches for.
AUTO = 0

#: The usual compile mode of each framework.
USUAL_COMPILE = {"pytorch": "eager", "tensorflow": "graph", "jax": "compile"}

#: All compile modes of each framework: the keys of `COMPILE_MODES` in its file in `suite/worker/frameworks`.
COMPILES_OF = {
    "pytorch": ("eager", "compile", "max"), "tensorflow": ("graph", "compile"), "jax": ("compile", "nographs"),
}  # fmt: skip


#: Settings of cells with several devices alone.
SEVERAL = ("devices", "strategy")

#: Settings that a cell's JSON leaves out at their default, as it did before there were any.
LATER = {"checkpointing": "off", "allocator": "default", "tuning": "known", "interface": "native"}


class CellError(ValueError):
    """An invalid setting of a cell; the message lists the valid ones."""


def _one_of(choices: tuple[str, ...]) -> Meta:
    """For the JSON Schema alone: `Cell` itself looks into the tuples, to which a value can be added."""
    return Meta(extra_json_schema={"enum": list(choices)})


_ONE_WORKLOAD = Meta(extra_json_schema={"anyOf": [{"enum": list(WORKLOADS)}, {"pattern": f"^{OWN_WORKLOAD.pattern}$"}]})

Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Loader:
    """How batches are made. A setting that is None is left to the loader.

    ``naive`` is what beginners write: one thread, sample by sample. ``workers`` uses N processes or threads. ``tuned``
    is the framework's fastest way on this machine. ``resident`` keeps the data set on the device and augments there.
    ``dali`` is NVIDIA DALI. ``prefetch`` is the number of batches kept ready. ``pin_memory`` uses page-locked host
    memory. ``cache`` keeps a copy of the data set in memory instead of memory-mapping its files.
    """

    kind: Annotated[str, _one_of(LOADERS)] = "tuned"
    workers: Natural = 0
    prefetch: Natural | None = None
    pin_memory: bool | None = None
    cache: bool | None = None

    def __post_init__(self) -> None:
        _choice("loader", self.kind, LOADERS)
        _natural("workers", self.workers, least=0)
        if self.workers and self.kind != "workers":
            raise CellError(
                f"the {self.kind} loader chooses its workers itself; use Loader('workers', {self.workers}) instead"
            )
        if self.prefetch is not None:
            _natural("prefetch", self.prefetch, least=0)
        for name in ("pin_memory", "cache"):
            if getattr(self, name) not in (None, True, False):
                raise CellError(f"{name} is {getattr(self, name)!r}; it must be true, false or left out")

    @classmethod
    def from_id(cls, text: str) -> Loader:
        """The loader with this id, such as ``w2`` or ``tuned-prefetch4``. Raises `CellError`."""
        kind, *parts = text.split("-")
        count = re.fullmatch(r"w(\d{1,4})", kind)
        if kind == "workers":
            raise CellError("loader 'workers' needs a number of workers; write w2 for two")
        if not count and kind not in LOADERS:
            kinds = ["w2" if name == "workers" else name for name in LOADERS]
            raise CellError(unknown("loader", kind, kinds, "or one of them with settings, such as tuned-prefetch4"))
        settings: dict[str, Any] = {}
        for part in parts:
            if prefetch := re.fullmatch(r"prefetch(\d{1,9})", part):
                name, value = "prefetch", int(prefetch[1])
            elif part in LOADER_SWITCHES:
                name, value = LOADER_SWITCHES[part]
            else:
                raise CellError(f"loader {text!r}: {unknown('setting', part, ['prefetch4', *LOADER_SWITCHES])}")
            if name in settings:
                raise CellError(f"loader {text!r} sets {name} twice; leave out {part!r} or the other")
            settings[name] = value
        return cls("workers", int(count[1]), **settings) if count else cls(kind, **settings)

    @property
    def id(self) -> str:
        parts = [f"w{self.workers}" if self.kind == "workers" else self.kind]
        parts += [] if self.prefetch is None else [f"prefetch{self.prefetch}"]
        parts += [] if self.pin_memory is None else ["pinned" if self.pin_memory else "unpinned"]
        parts += [] if self.cache is None else ["cached" if self.cache else "mapped"]
        return "-".join(parts)


@dataclass(frozen=True)
class Cell:
    """The settings of one measured training run.

    ``batch`` is the number of samples that go through the network at once (`AUTO`: as many as fit). ``accumulate`` is
    the number of such batches per update, on each of ``devices``, which train together by the ``strategy``
    (empty for one device; for several the framework's usual one unless another is given). ``kernel`` is that of the
    LSTM (the framework's choice, cuDNN's, or a loop over time steps) or of the attention (the framework's choice, one
    fused kernel, or the plain formula). With a ``recipe`` (see `workloads.recipes`) the
    cell trains to its end and is evaluated after every epoch. With ``checkpointing`` the backward pass computes the
    activations inside each block of the model again, in place of keeping them. ``allocator`` is that of a GPU's memory
    (see `suite.plan.allocators`), and ``tuning`` sets the free switches of a CPU (see `suite.plan.tunings`). The
    ``interface`` is what drives the training; with Keras, the framework is its backend; ``nnx`` is flax.nnx in JAX, and
    ``lightning`` Lightning in PyTorch.
    """

    workload: Annotated[str, _ONE_WORKLOAD]
    framework: Annotated[str, _one_of(FRAMEWORKS)]
    precision: Annotated[str, _one_of(PRECISIONS)] = "fp32"
    batch: Natural = 32
    compile: Annotated[str, _one_of(("", *COMPILES))] = ""
    loader: Loader = field(default_factory=Loader)
    size: Annotated[str, _one_of(SIZES)] = "full"
    accumulate: Positive = 1
    kernel: Annotated[str, _one_of(KERNELS)] = "auto"
    recipe: Annotated[str, _one_of(RECIPES)] = ""
    devices: Positive = 1
    strategy: Annotated[str, _one_of(("", *STRATEGIES))] = ""
    checkpointing: Annotated[str, _one_of(CHECKPOINTINGS)] = "off"
    allocator: Annotated[str, _one_of(ALLOCATORS)] = "default"
    tuning: Annotated[str, _one_of(TUNINGS)] = "known"
    interface: Annotated[str, _one_of(INTERFACES)] = "native"

    def __post_init__(self) -> None:
        if not (isinstance(self.workload, str) and OWN_WORKLOAD.fullmatch(self.workload)):
            _choice("workload", self.workload, WORKLOADS)
        _choice("framework", self.framework, FRAMEWORKS)
        _choice("precision", self.precision, PRECISIONS)
        _choice("kernel", self.kernel, KERNELS)
        _choice("size", self.size, SIZES)
        _choice("recipe", self.recipe, RECIPES)
        _choice("checkpointing", self.checkpointing, CHECKPOINTINGS)
        _choice("allocator", self.allocator, ALLOCATORS)
        _choice("tuning", self.tuning, TUNINGS)
        _choice("interface", self.interface, INTERFACES)
        if type(self.batch) is not int or self.batch != AUTO:
            _natural("batch", self.batch, least=1)
        _natural("accumulate", self.accumulate, least=1)
        if not self.compile:
            object.__setattr__(self, "compile", USUAL_COMPILE[self.framework])
        _choice("compile", self.compile, COMPILES)
        _natural("devices", self.devices, least=1)
        if self.devices > 1 and not self.strategy:
            object.__setattr__(self, "strategy", USUAL_STRATEGY[self.framework])
        _choice("strategy", self.strategy, ("", *STRATEGIES))
        if self.devices == 1 and self.strategy:
            raise CellError(f"strategy {self.strategy!r} is for several devices; leave it out, or ask for 2 devices")

    @property
    def effective_batch(self) -> int:
        """Samples per update, of all devices together; 0 for batch `AUTO`, for which the record has it."""
        return self.device_batch * self.devices

    @property
    def global_batch(self) -> int:
        """Another name of `effective_batch`, usual where there are several devices."""
        return self.effective_batch

    @property
    def device_batch(self) -> int:
        """Samples per update of one device; 0 for batch `AUTO`."""
        return self.batch * self.accumulate

    @property
    def processes(self) -> int:
        """How many processes train: one for each device, or one for all of them."""
        return 1 if (self.framework, self.strategy) in IN_ONE_PROCESS else self.devices

    @property
    def process_batch(self) -> int:
        """Samples per update that one process takes in: its devices' share, or all where the model is divided."""
        return self.effective_batch if self.strategy in MODEL_DIVIDED else self.effective_batch // self.processes

    @property
    def id(self) -> str:
        """For example ``cifar100_cnn-pytorch-bf16-b128-compile-w4``; other settings follow if not at their default."""
        parts = [
            self.workload,
            self.framework,
            self.precision,
            f"b{self.batch or 'auto'}",
            self.compile,
            self.loader.id,
        ]
        parts += [f"a{self.accumulate}"] if self.accumulate > 1 else []
        parts += [self.kernel] if self.kernel != "auto" else []
        parts += ["checkpointing"] if self.checkpointing == "on" else []
        parts += [self.allocator] if self.allocator != "default" else []
        parts += [self.tuning] if self.tuning != LATER["tuning"] else []
        parts += [f"d{self.devices}"] if self.devices > 1 else []
        parts += [self.strategy] if self.strategy not in ("", REFERENCE_STRATEGY[self.framework]) else []
        parts += [self.interface] if self.interface != INTERFACES[0] else []
        parts += [self.size] if self.size != "full" else []
        parts += [self.recipe] if self.recipe else []
        return "-".join(parts)

    def but(self, **changes: Any) -> Cell:
        """The same cell with some settings changed.

        A new framework gets its usual compile mode, and its usual strategy, as another number of devices does that
        has or had none.
        """
        if "framework" in changes:
            changes.setdefault("compile", "")
        if "framework" in changes or 1 in (self.devices, changes.get("devices")):
            changes.setdefault("strategy", "")
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The settings; of one device without those of several, as before there were any, nor `LATER` ones."""
        left_out = {name for name, default in LATER.items() if getattr(self, name) == default}
        left_out |= set() if self.devices > 1 else set(SEVERAL)
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @classmethod
    def from_json(cls, data: Any) -> Cell:
        """Raises `CellError` for anything that `to_json` cannot have written."""
        try:
            return decode(cls, data)
        except SchemaError as error:
            raise CellError(str(error)) from None


def _choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise CellError(unknown(what, value, choices))


def _natural(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise CellError(f"{what} is {value!r}; it must be a whole number of at least {least}")
