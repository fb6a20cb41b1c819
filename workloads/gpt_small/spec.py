"""`gpt_small`: a decoder that predicts the next word of IMDB's reviews, trained from scratch.

Words and learned positions of width 512; eight blocks of causal self-attention with eight heads and two dense layers
(2048 and back), each after a layer normalisation of its input ("pre-norm") and added to it; a last layer normalisation;
the logits of the next word by the table of words itself ("tied": Press and Wolf, 2017). The shape is GPT-2's (Radford
et al., 2019), without biases and dropout, as PaLM was trained (Chowdhery et al., 2022). GELU in its exact form. Cross
entropy at every position; AdamW as in Brown et al. (2020), but gradients are not clipped. Size ``full``: 27,865,600
parameters and 15.27 GFLOP forward per window of 256 words; 25.2 million of the parameters are in the blocks.

The reviews are one stream of words, cut into windows (`workloads.data.windows`). A window's loss is the mean of its
words', and its accuracy the share of them with the largest logit. Trainings are timed to a test loss. Where the model
serves, its answer to a window is the logits of the word that follows the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from workloads.data.tokenizer import VOCABULARY
from workloads.imdb_transformer.spec import EPSILON, SMALL_BOUND
from workloads.spec import AdamW, Bounds, Tensor, Training, WorkloadSpec

if TYPE_CHECKING:
    from workloads.data.dataset import DataSet

__all__ = ("EPSILON", "IGNORED", "VOCABULARY", "GptSpec", "specification")

#: The label of a word that is not scored.
IGNORED = -1


@dataclass(frozen=True)
class GptSpec(WorkloadSpec):
    """``length`` words in a window; ``hidden`` is the width between a block's dense layers."""

    title = "GPT"
    kernels = ("fused", "plain")
    ignored_label = IGNORED
    decodes = True
    one_length = "its texts are packed into windows of one length, so that no word of a batch is padding"
    evaluation_batch = 50  # whose logits, of every word of the vocabulary at every position, are 0.3 GB
    bounds: ClassVar = {
        "fp32": Bounds(3e-6, 4e-6, 4e-6, 2e-5, 2e-5),
        "bf16": Bounds(5e-4, 5e-4, 5e-4, 0.02, 0.02),
    }

    length: int
    layers: int
    heads: int
    width: int
    hidden: int

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(f"block{number}" for number in range(1, self.layers + 1))

    def arrange(self, data: DataSet) -> DataSet:
        """Windows of the stream of reviews, each with the words that follow its own."""
        from workloads.data.windows import next_words  # here, as in `WorkloadSpec.reference_weights`

        return next_words(data, self.length)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        width, hidden = self.width, self.hidden
        tensors = [
            Tensor("words/table", (VOCABULARY, width), bound=SMALL_BOUND),
            Tensor("positions/table", (self.length, width), bound=SMALL_BOUND),
        ]
        # What is added to the sum that runs through all blocks is the smaller, the more blocks there are (GPT-2).
        added = SMALL_BOUND / (2 * self.layers) ** 0.5
        for block in self.blocks:
            tensors += [
                _scale(f"{block}_norm1", width),
                Tensor(f"{block}_attention/kernel", (width, 3 * width), bound=SMALL_BOUND),
                Tensor(f"{block}_projection/kernel", (width, width), bound=added),
                _scale(f"{block}_norm2", width),
                Tensor(f"{block}_hidden/kernel", (width, hidden), bound=SMALL_BOUND),
                Tensor(f"{block}_output/kernel", (hidden, width), bound=added),
            ]
        return (*tensors, _scale("norm", width))

    @property
    def label_count(self) -> int:
        return VOCABULARY

    @property
    def flops_by_kind(self) -> dict[str, int]:
        dense = 2 * self.length * self.width * (4 * self.width + 2 * self.hidden)
        attention = 2 * 2 * self.length**2 * self.width  # of all pairs of words, though the mask leaves half of them
        logits = 2 * self.length * self.width * VOCABULARY
        return {"matrix product": self.layers * (dense + attention) + logits}

    @property
    def answer_flops_per_sample(self) -> int:
        return self.flops_per_sample - 2 * (self.length - 1) * self.width * VOCABULARY

    @property
    def studied(self) -> Training:
        return Training(self.optimizer, epochs=10, target=4.5)

    @property
    def modern(self) -> Training:
        if self.size == "small":
            return Training(AdamW(3e-3, beta2=0.95, decay=0.1), epochs=1, target=5.0)
        return Training(self.optimizer, epochs=4, target=4.5)


def specification(size: str = "full") -> GptSpec:
    """The decoder (``full``), or a short and narrow one for tests and slow CPUs (``small``)."""
    length, layers, heads, width = {"full": (256, 8, 8, 512), "small": (64, 2, 4, 64)}[size]
    return GptSpec(
        name="gpt_small",
        size=size,
        data="imdb",
        optimizer=AdamW(learning_rate=6e-4, beta2=0.95, decay=0.1),
        batch=32,
        length=length,
        layers=layers,
        heads=heads,
        width=width,
        hidden=4 * width,
    )


def _scale(name: str, width: int) -> Tensor:
    return Tensor(f"{name}/scale", (width,), offset=1.0, offset_to=width)
