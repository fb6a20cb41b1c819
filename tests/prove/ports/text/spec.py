"""`text`: an embedding, a convolution, an LSTM beside a masked mean, a layer normalisation, a dense layer."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.spec import Adam, Tensor, WorkloadSpec

WORDS, LENGTH, WIDTH, UNITS, EPSILON = 20, 6, 6, 5, 1e-6


@dataclass(frozen=True)
class Spec(WorkloadSpec):
    """As the files of the frameworks have it."""

    length: int = LENGTH

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (
            Tensor("embedding/table", (WORDS, WIDTH), bound=1.0),
            Tensor("near/kernel", (3, WIDTH, WIDTH), bound=0.3),
            Tensor("near/bias", (WIDTH,)),
            Tensor("lstm/kernel", (WIDTH, 4 * UNITS), bound=0.5),
            Tensor("lstm/recurrent", (UNITS, 4 * UNITS), bound=0.5),
            Tensor("lstm/bias", (4 * UNITS,), offset=1.0, offset_from=UNITS, offset_to=2 * UNITS),
            Tensor("words/kernel", (WIDTH, UNITS), bound=0.5),
            Tensor("words/bias", (UNITS,)),
            Tensor("norm/scale", (UNITS,), offset=1.0, offset_to=UNITS),
            Tensor("norm/shift", (UNITS,)),
            Tensor("logits/kernel", (UNITS, 2), bound=0.6),
            Tensor("logits/bias", (2,)),
        )

    @property
    def flops_per_sample(self) -> int:
        return 2 * (LENGTH * (3 * WIDTH * WIDTH + (WIDTH + UNITS) * 4 * UNITS) + WIDTH * UNITS + UNITS * 2)


def specification(size: str = "full") -> Spec:
    return Spec("own_text", size, "own", Adam(), 16)
