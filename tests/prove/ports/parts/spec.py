"""`parts`: what public models have and Keras computes in its own way: constants, activations inside layers, attention.

Gradients of ``conv2/bias``, before a normalisation, and of the attention's keys' bias, under a softmax, are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.spec import Adam, Tensor, WorkloadSpec

CLASSES, WIDTH, HEADS, UNITS, SMOOTHING, EPSILON = 3, 8, 2, 4, 0.1, 1e-5


@dataclass(frozen=True)
class Spec(WorkloadSpec):
    """As the files of the frameworks have it."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        head = (HEADS, WIDTH // HEADS)
        parts = ("query", "key", "value")
        attention = [Tensor(f"attention/{name}/kernel", (WIDTH, *head), bound=0.6) for name in parts]
        biases = [Tensor(f"attention/{name}/bias", head) for name in parts]
        out = [Tensor("attention/out/kernel", (*head, WIDTH), bound=0.6), Tensor("attention/out/bias", (WIDTH,))]
        lstms = []
        for name in ("lstm1", "lstm2"):
            lstms += [Tensor(f"{name}/kernel", (WIDTH if name == "lstm1" else UNITS, 4 * UNITS), 0.5)]
            lstms += [Tensor(f"{name}/recurrent", (UNITS, 4 * UNITS), 0.5), Tensor(f"{name}/bias", (4 * UNITS,))]
        return (
            Tensor("conv1/kernel", (3, 3, 3, 4), bound=0.4),
            Tensor("conv1/bias", (4,)),
            Tensor("conv2/kernel", (3, 3, 4, 4), bound=0.4),
            Tensor("conv2/bias", (4,)),
            Tensor("norm/scale", (4,), offset=1.0, offset_to=4),
            Tensor("norm/shift", (4,)),
            Tensor("up/kernel", (3, 3, WIDTH, 4), bound=0.4),
            Tensor("up/bias", (WIDTH,)),
            *attention,
            *biases,
            *out,
            Tensor("root/scale", (WIDTH,), offset=1.0, offset_to=WIDTH),
            *lstms,
            Tensor("hidden/kernel", (UNITS, WIDTH), bound=0.6),
            Tensor("hidden/bias", (WIDTH,)),
            Tensor("logits/kernel", (WIDTH, CLASSES), bound=0.6),
            Tensor("logits/bias", (CLASSES,)),
        )

    @property
    def flops_per_sample(self) -> int:
        return 2 * (64 * 27 * 4 + 16 * 36 * 4 + 64 * 36 * WIDTH + 16 * 4 * WIDTH**2)


def specification(size: str = "full") -> Spec:
    return Spec("own_parts", size, "own", Adam(), 16)
