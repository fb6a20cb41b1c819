"""One cell of a matrix: every setting of one measured training run, as a value.

A cell is hashable, has a readable id for ``pytest -k``, and travels as JSON. Its settings are declared in
`suite.catalog.settings`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, make_dataclass, replace
from dataclasses import field as field_of
from functools import cached_property
from typing import TYPE_CHECKING, Any

from suite.catalog import frameworks, precisions
from suite.catalog.frameworks import COMPILES
from suite.catalog.loaders import LOADERS, CellError, Loader
from suite.catalog.setting import AUTO
from suite.catalog.settings import BY_ID, KERNELS_OF, OF_SCRIPTS, OWN_WORKLOAD, SCRIPT, SETTINGS
from suite.plan.schema import SchemaError, decode
from workloads.spec import WORKLOADS

__all__ = (
    "ALLOCATORS", "AUTO", "CHECKPOINTINGS", "COMPILES", "COMPILES_OF", "FRAMEWORKS", "INTERFACES", "KERNELS",
    "KERNELS_OF", "LATER", "LOADERS", "OWN_WORKLOAD", "PRECISIONS", "RECIPES", "REFERENCE_STRATEGY", "SIZES",
    "STRATEGIES", "STRATEGIES_OF", "TUNINGS", "USUAL_COMPILE", "WORKLOADS", "Cell", "CellError", "Loader",
)  # fmt: skip

FRAMEWORKS = tuple(frameworks.FRAMEWORKS)
PRECISIONS = tuple(precisions.PRECISIONS)
KERNELS, SIZES, CHECKPOINTINGS, ALLOCATORS, TUNINGS, INTERFACES = (
    SETTINGS[name].choices for name in ("kernel", "size", "checkpointing", "allocator", "tuning", "interface")
)
RECIPES = ("", *SETTINGS["recipe"].choices)

#: The compile modes of each framework, and the usual one.
COMPILES_OF = {name: each.compiles for name, each in frameworks.FRAMEWORKS.items()}
USUAL_COMPILE = {name: modes[0] for name, modes in COMPILES_OF.items()}

#: The strategies by which several devices train one model, of each framework. Those that
#: `suite.plan.settings.strategies` does not measure end as unsupported, with the reason.
STRATEGIES = tuple(frameworks.STRATEGIES)
STRATEGIES_OF = {name: tuple(each.strategies) for name, each in frameworks.FRAMEWORKS.items()}
#: The strategy that an id leaves out, and that rows are compared with where several were measured.
REFERENCE_STRATEGY = {name: next(iter(own), "") for name, own in STRATEGIES_OF.items()}
#: What a cell gets that names none.
USUAL_STRATEGY = {name: each.usual_strategy or REFERENCE_STRATEGY[name] for name, each in frameworks.FRAMEWORKS.items()}

#: Strategies that divide the model over the devices, all of which see every sample; the others divide the samples.
MODEL_DIVIDED = ("split",)

#: The defaults of settings that a cell's JSON leaves out there, as before there were any, besides those of several
#: devices.
LATER = {name: each.default for name, each in SETTINGS.items() if each.is_later and name not in ("devices", "strategy")}


if TYPE_CHECKING:  # for type checkers; what a setting is, and its default, is in the catalog

    @dataclass(frozen=True)
    class _Settings:
        workload: str
        framework: str
        precision: str = ""
        batch: int = 0
        compile: str = ""
        loader: Loader = Loader()  # noqa: RUF009 - frozen
        size: str = ""
        accumulate: int = 0
        kernel: str = ""
        recipe: str = ""
        devices: int = 0
        strategy: str = ""
        checkpointing: str = ""
        allocator: str = ""
        tuning: str = ""
        interface: str = ""
        threads: int = 0
        cores: int = 0
        bind: str = ""
        layout: str = ""
        format: str = ""
        pages: str = ""
        cache: str = ""
        release: str = ""
        variant: str = ""

else:
    _FIELDS = ((name, each.type, field_of(default=each.default)) for name, each in SETTINGS.items())
    _Settings = make_dataclass("_Settings", _FIELDS, frozen=True)


@dataclass(frozen=True)
class Cell(_Settings):
    """The settings of one measured training run; `suite.catalog.settings` explains each.

    ``batch`` is the number of samples that go through the network at once (`AUTO`: as many as fit), ``accumulate`` the
    number of such batches per update, on each of ``devices``. With a ``recipe`` (see `workloads.recipes`) the cell
    trains to its end and is evaluated after every epoch. 0 ``threads`` or ``cores`` are the framework's own number. A
    ``release`` has an environment of its own (`suite.releases`); without one the installed framework is meant.
    """

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            if setting.former:
                object.__setattr__(self, name, setting.current(getattr(self, name)))
            setting.check(getattr(self, name))
        if not self.compile:
            object.__setattr__(self, "compile", USUAL_COMPILE[self.framework])
        if self.devices > 1 and not self.strategy:
            object.__setattr__(self, "strategy", USUAL_STRATEGY[self.framework])
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
        return 1 if self.strategy in frameworks.FRAMEWORKS[self.framework].one_process else self.devices

    @property
    def process_batch(self) -> int:
        """Samples per update that one process takes in: its devices' share, or all where the model is divided."""
        return self.effective_batch if self.strategy in MODEL_DIVIDED else self.effective_batch // self.processes

    @cached_property
    def id(self) -> str:
        """For example ``cifar100_cnn-pytorch-bf16-b128-compile-w4``; other settings follow if not at their default."""
        return "-".join(
            setting.part(value)
            for setting in BY_ID
            if setting.name in self._named
            if (value := getattr(self, setting.name)) != setting.default or setting.is_always_named
            if value not in ("", REFERENCE_STRATEGY[self.framework])
        )

    @property
    def is_of_script(self) -> bool:
        """Whether it is a reader's own script, whose settings are its own affair."""
        return self.workload.startswith(SCRIPT)

    @property
    def _named(self) -> Iterable[str]:
        return ("workload", "framework", *OF_SCRIPTS) if self.is_of_script else SETTINGS

    def but(self, **changes: Any) -> Cell:
        """The same cell with some settings changed.

        A new framework gets its usual compile mode and no release, and its usual strategy, as another number of devices
        does that has or had none.
        """
        if "framework" in changes:
            changes = {"compile": "", "release": ""} | changes
        if "framework" in changes or 1 in (self.devices, changes.get("devices")):
            changes.setdefault("strategy", "")
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The settings; those that came later only where they are not at their default."""
        left_out = {name for name, each in SETTINGS.items() if each.is_later and getattr(self, name) == each.default}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @classmethod
    def from_json(cls, data: Any) -> Cell:
        """Raises `CellError` for anything that `to_json` cannot have written."""
        try:
            return decode(cls, data)
        except SchemaError as error:
            raise CellError(str(error)) from None
