"""`imdb_lstm`: the IMDB sentiment network of Elshawi et al., "DLBench" (Cluster Computing 24, 2021).

Vocabulary 5,000, reviews of 500 words (left-padded, so that the last step is always a word and no mask is needed),
embedding of 32, one LSTM of 100 units, its last state, a dense layer of 1. Binary cross entropy; Adam. Size ``full``:
213,301 parameters and 53 MFLOP forward per review.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from workloads.spec import Adam, Bounds, Tensor, Training, WorkloadSpec, glorot_bound

VOCABULARY = 5000


@dataclass(frozen=True)
class LstmSpec(WorkloadSpec):
    """``length`` words a review, ``embedding`` wide, ``units`` in the LSTM."""

    title = "IMDB LSTM"
    study = "50 epochs: TensorFlow .875 (2:18 h), PyTorch .877 (0:17 h), Keras .878 (about 6.4 h)"
    study_differs = (
        "There, TensorFlow and Keras did not use cuDNN's LSTM, and each framework had its own vocabulary, order and "
        "initial weights"
    )
    kernels = ("cudnn", "scan")
    stages = recurrent = True
    one_length = ""
    one_block = (
        "imdb_lstm is one recurrent layer: to compute it again, the backward pass would hold all of its activations at "
        "once, as without checkpointing"
    )
    bounds: ClassVar = {
        "fp32": Bounds(5e-6, 5e-6, 5e-6, 1e-4, 2e-4),
        "bf16": Bounds(5e-4, 1e-3, 5e-3, 0.08, 0.15),
    }

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

    def at_length(self, length: int) -> LstmSpec:
        return replace(self, length=length)

    @property
    def flops_by_kind(self) -> dict[str, int]:
        step = 2 * (self.embedding + self.units) * 4 * self.units
        return {"recurrence": self.length * step, "matrix product": 2 * self.units}

    @property
    def studied(self) -> Training:
        return Training(self.optimizer, epochs=50, target=0.86)

    @property
    def modern(self) -> Training:
        return Training(Adam(learning_rate=1e-3), epochs=3, target=0.86)


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
