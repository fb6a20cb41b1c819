"""`imdb_lstm`: the IMDB sentiment network of Elshawi et al., "DLBench" (Cluster Computing 24, 2021).

Vocabulary 5,000, reviews of 500 words (left-padded, so that the last step is always a word and no mask is needed),
embedding of 32, one LSTM of 100 units, its last state, a dense layer of 1. Binary cross entropy; Adam. Size ``full``:
213,301 parameters and 53 MFLOP forward per review.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workloads.spec import Adam, Tensor, WorkloadSpec, glorot_bound

VOCABULARY = 5000


@dataclass(frozen=True)
class LstmSpec(WorkloadSpec):
    """``length`` words a review, ``embedding`` wide, ``units`` in the LSTM."""

    length: int
    embedding: int
    units: int

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        gates = 4 * self.units
        return (
            Tensor("embedding/table", (VOCABULARY, self.embedding), bound=0.05),
            Tensor("lstm/kernel", (self.embedding, gates), bound=glorot_bound(self.embedding, gates)),
            Tensor("lstm/recurrent", (self.units, gates), bound=1 / math.sqrt(self.units)),
            # A forget gate that starts open: Jozefowicz et al. (2015).
            Tensor("lstm/bias", (gates,), offset=1.0, offset_from=self.units, offset_to=2 * self.units),
            Tensor("logits/kernel", (self.units, 1), bound=glorot_bound(self.units, 1)),
            Tensor("logits/bias", (1,)),
        )

    @property
    def flops_per_sample(self) -> int:
        return sum(self.flops_by_kind.values())

    @property
    def flops_by_kind(self) -> dict[str, int]:
        step = 2 * (self.embedding + self.units) * 4 * self.units
        return {"recurrence": self.length * step, "matrix product": 2 * self.units}


def specification(size: str = "full") -> LstmSpec:
    """The study's network (``full``), or a short and narrow one for tests and slow CPUs (``small``)."""
    length, embedding, units = {"full": (500, 32, 100), "small": (80, 16, 32)}[size]
    return LstmSpec(
        name="imdb_lstm",
        size=size,
        data="imdb",
        optimizer=Adam(),
        batch=64,
        length=length,
        embedding=embedding,
        units=units,
    )
