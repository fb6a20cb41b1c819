"""What the evidence of identity is about: a cell with all that builds its models and batches."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.worker import interfaces
from suite.worker.distributed.process_group import ProcessGroup, find_training
from suite.worker.evidence.fingerprint import SEED, at_proof_rate, fixed_batches
from workloads.data.dataset import Array, DataSet
from workloads.spec import WORKLOADS, WorkloadSpec


@dataclass(frozen=True)
class EvidenceContext:
    """The subject of the evidence: a cell, and everything needed to build its model and batches."""

    cell: Cell
    framework: ModuleType
    module: ModuleType
    device: str
    spec: WorkloadSpec
    data: DataSet
    dropout: bool = True  # whether what is timed has the workload's dropout
    recipe: WorkloadSpec | None = None  # the spec with a recipe's optimizer, where the cell trains to its end
    rates: Array | None = None  # and the learning rates of all its steps
    programs: str = ""  # the run's folder for compiled programs
    team: ProcessGroup | None = None  # the processes of a cell with several devices
    serves: bool = False  # whether the launch also measures inference

    @property
    def tools(self) -> ModuleType:
        """The framework's file for evidence."""
        return interfaces.tools(self.cell)

    @property
    def length(self) -> int | None:
        """Words of a sample, where samples are texts."""
        return getattr(self.spec, "length", None)

    def compile_cache(self, how: str = "soon") -> AbstractContextManager[Any]:
        """A context in which a launch takes from the run's earlier ones what they compiled for their evidence.

        ``how``: to ``exact``ly the programs that are timed, ``soon`` to some that compute the same, or ``quickly`` to
        slower ones.
        """
        return self.tools.compile_cache(self.programs, how) if self.programs else nullcontext()

    @property
    def draws(self) -> bool:
        """Whether the timed model draws dropout masks."""
        return self.dropout and bool(getattr(self.spec, "dropout", ()))

    @property
    def timed(self) -> WorkloadSpec:
        """The spec of what is timed: the workload's, or as the recipe changes it."""
        return self.recipe or self.spec

    @property
    def switchable(self) -> bool:
        """Whether what is timed can also take the fingerprint's steps at the cell's batch, without its dropout."""
        in_layers = self.cell.framework == "pytorch" and self.spec.name in WORKLOADS
        in_state: bool = getattr(self.module, "DROPOUT_IN_STATE", in_layers)
        off = not self.draws or (in_state and hasattr(self.tools, "without_dropout"))
        return off and self.timed == at_proof_rate(self.spec)

    def fresh(self) -> Any:
        """A new model like the one that is timed, with the fingerprint's weights."""
        return self.training(self.cell, self.timed, dropout=self.dropout, rates=self.rates)

    def take_share(self, batch: tuple[Array, Array], parts: int = 1) -> tuple[Array, Array]:
        """Returns what a process takes of a batch: all of it on one device."""
        return self.team.take_share(batch, parts) if self.team else batch

    def batches(self, size: int, steps: int, parts: int = 1) -> list[tuple[Array, Array]]:
        """What a process takes of the batches that every fingerprint trains on."""
        batches = fixed_batches(self.data, self.length, size, steps, self.cell.lengths)
        return [self.take_share(batch, parts) for batch in batches]

    def training(
        self, cell: Cell, spec: WorkloadSpec, device: str = "", *,
        weights: dict[str, Array] | None = None, dropout: bool = False, rates: Array | None = None,
    ) -> Any:  # fmt: skip
        """A new model, with the fingerprint's weights unless others are given."""
        weights, place = weights or spec.reference_weights(SEED), device or self.device
        make = find_training(self.framework, cell, self.team)
        return make(cell, spec, self.module, weights, place, dropout=dropout, seed=SEED, rates=rates)
