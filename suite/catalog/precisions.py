"""The precisions: their number formats, the errors that show them, and the devices that have them."""

from __future__ import annotations

from dataclasses import dataclass

from suite.catalog import load_installed


@dataclass(frozen=True)
class Band:
    """Relative errors (root mean square over root mean square) that a number format can have."""

    least: float
    most: float

    def __contains__(self, error: float) -> bool:
        return self.least <= error <= self.most


@dataclass(frozen=True)
class Precision:
    """One precision: the number format of layers and that of weights.

    The error of a product or a convolution against float64 lies in its ``band``; the logits of an LSTM over hundreds of
    steps, where errors add up, are off by ``lstm_most`` at most. ``gpu_only`` says why a CPU is not measured with it. A
    search takes it without being asked where ``is_searched``.
    """

    name: str
    band: Band
    lstm_most: float
    compute: str = "float32"
    weights: str = "float32"
    gpu_only: str = ""
    is_searched: bool = True


# Rounding to p bits of significand errs by about 0.3 * 2**-p of a term (uniform over an ulp); sums of independent
# terms keep that share, and float32 sums add their own. p is 53, 24, 11 (TF32 and float16 alike) and 8. Hardware that
# truncates its inputs errs by more: on the draws of `suite.worker.launch.probe`, inputs rounded to TF32 give 2.9e-4,
# truncated ones 7.7e-4, and inputs rounded to bfloat16 2.4e-3. The boundary lies between the last two.
_ALL = (
    Precision("fp32", Band(1e-9, 1e-5), 1e-4),
    Precision("tf32", Band(5e-5, 1.3e-3), 2e-2, gpu_only="TF32 is a mode of NVIDIA's tensor cores"),
    Precision("bf16", Band(1.3e-3, 1e-2), 2e-1, compute="bfloat16"),
    Precision(
        "fp16", Band(5e-5, 1.3e-3), 2e-2, compute="float16",
        gpu_only="float16 training needs the tensor cores of a GPU",
    ),
    Precision(  # for proofs
        "fp64", Band(0.0, 1e-13), 1e-11, compute="float64", weights="float64", is_searched=False
    ),
)  # fmt: skip

#: By name, in the order in which tables show them.
PRECISIONS: dict[str, Precision] = {each.name: each for each in (*_ALL, *load_installed("precisions"))}


def default_precisions(gpu: bool) -> tuple[str, ...]:
    """The precisions that a search takes without being asked, on a GPU or on a CPU."""
    return tuple(each.name for each in PRECISIONS.values() if each.is_searched and (gpu or not each.gpu_only))
