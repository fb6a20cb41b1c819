"""Words and numbers to a class, a word and a number: an embedding that is used twice, a frozen bag, a GRU, LSTMs."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.spec import AdamW, Schedule, Tensor, WorkloadSpec

WORDS, LENGTH, NUMBERS, WIDTH, BAG, CLASSES = 30, 7, 5, 6, 3, 4
PARTS = (((LENGTH,), "int32"), ((NUMBERS,), "float32"))


@dataclass(frozen=True)
class Spec(WorkloadSpec):
    @property
    def tensors(self):
        w, features = WIDTH, 2 * WIDTH + BAG + NUMBERS
        recurrent = [Tensor("gru/kernel", (w, 3 * w), 0.4), Tensor("gru/recurrent", (w, 3 * w), 0.4)]
        recurrent.append(Tensor("gru/bias", (2, 3 * w), 0.2, decay=0.0))
        for name in ("forward_lstm_0", "backward_lstm_0", "forward_lstm_1", "backward_lstm_1"):
            recurrent += [Tensor(f"{name}/kernel", (w, 2 * w), 0.4), Tensor(f"{name}/recurrent", (w // 2, 2 * w), 0.4)]
            recurrent.append(Tensor(f"{name}/bias", (2 * w,), 0.2))
        return (
            Tensor("words/table", (WORDS, w), 0.5),
            Tensor("bag/table", (WORDS, BAG), 0.5, frozen=True),
            *recurrent,
            Tensor("norm/scale", (w,), 0.2, offset=1.0, offset_to=w),
            Tensor("head/kernel", (features, CLASSES), 0.4),
            Tensor("head/bias", (CLASSES,), decay=0.1),
            Tensor("value/kernel", (features, 1), 0.4),
            Tensor("value/bias", (1,)),
        )

    @property
    def flops_per_sample(self):
        return 2 * LENGTH * WIDTH * 6 * WIDTH


def specification(size="full"):
    optimizer = AdamW(0.01, decay=0.2, clip_norm=0.5, schedule=Schedule(8, warmup=2, decay="cosine"))
    return Spec("own_mixed", size, "own", optimizer, 8)
