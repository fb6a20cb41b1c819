"""Checks that the requested precision is used, by the errors of small computations against float64.

Each framework computes a matrix product and a convolution as its layers do, on fixed draws; their relative error lies
in one band per number format, and the bands lie far apart. An LSTM is checked by its logits, against the same network
in NumPy.
"""

from __future__ import annotations

import math
import time
import traceback
from types import ModuleType
from typing import Any

import numpy as np

from suite.catalog.devices import DEVICES
from suite.catalog.precisions import PRECISIONS
from suite.plan.cell import Cell
from suite.worker.distributed.process_group import ProcessGroup
from workloads.data.dataset import Array


class PrecisionError(RuntimeError):
    """The framework did not compute in the precision that was asked for."""


#: The errors that each precision can have.
BANDS = {name: each.band for name, each in PRECISIONS.items()}

#: The side of what is drawn on the host; the device repeats it. 8192 x 8192 draws would take seconds of each launch.
PEAK_DRAWN = 1024
PEAK_TIMES, PEAK_WINDOW_S = 5, 0.1

#: The tensors of a network that `lstm_logits` can compute.
LSTM_TENSORS = {"embedding/table", "lstm/kernel", "lstm/recurrent", "lstm/bias", "logits/kernel", "logits/bias"}


def precision_errors(cell: Cell, framework: ModuleType, device: str) -> dict[str, float]:
    """The relative errors of a matrix product and of a convolution in the cell's precision.

    Raises `PrecisionError` if one lies outside of the precision's band.
    """
    draws = np.random.default_rng(0)
    a, b = draws.standard_normal((128, 512)), draws.standard_normal((512, 128))
    images, kernel = draws.standard_normal((4, 12, 12, 64)), draws.standard_normal((3, 3, 64, 64))
    arrays = [a, b, images, kernel]
    if cell.precision != "fp64":  # draws that float32 holds exactly, so that only the computation errs
        arrays = [array.astype(np.float32).astype(np.float64) for array in arrays]
    expected = (arrays[0] @ arrays[1], _convolution(arrays[2], arrays[3]))
    computed = (
        framework.product(cell, device, arrays[0], arrays[1]),
        framework.convolution(cell, device, arrays[2], arrays[3]),
    )
    errors = {}
    for name, value, reference in zip(("product", "convolution"), computed, expected, strict=True):
        errors[name] = relative_error(value, reference)
        if errors[name] not in BANDS[cell.precision]:
            formats = " or ".join(each for each, band in BANDS.items() if errors[name] in band)
            raise PrecisionError(
                f"asked for {cell.precision}, measured {formats or 'none of the known formats'}: "
                f"the {name} is off by {errors[name]:.1e} of float64"
            )
    return errors


def denormals(cell: Cell, framework: ModuleType, device: str) -> str:
    """What becomes of numbers too small for full precision in a product: ``kept``, ``flushed`` to zero, or ``mixed``.

    Vanishing gradients end there, and on a CPU what is kept is several times as slow to compute with.
    """
    small, smaller = (1e-300, 1e-20) if cell.precision == "fp64" else (1e-30, 1e-10)
    a, b = np.zeros((512, 512)), np.zeros((512, 512))
    a[:, 0], b[0, :] = small, smaller
    nonzero_share = float(np.mean(framework.product(cell, device, a, b) != 0))
    return {0.0: "flushed", 1.0: "kept"}.get(nonzero_share, "mixed")


def peak_flops_per_s(cell: Cell, framework: ModuleType, device: str) -> float:
    """The rate of a large matrix product in the cell's precision, the best of some: what this device can really do.

    A model's share of it says more than a share of the data sheet's figure, which no program reaches.
    """
    side = DEVICES[device].peak_side
    drawn = min(side, PEAK_DRAWN)
    draws = np.random.default_rng(0)
    operands = draws.standard_normal((2, drawn, drawn)) / side
    multiply = framework.multiplication(cell, device, *operands, repeats=side // drawn)
    multiply(1)
    count, best_s = 1, math.inf
    for _ in range(PEAK_TIMES):
        start = time.perf_counter_ns()
        multiply(count)
        elapsed_s = (time.perf_counter_ns() - start) / 1e9
        best_s = min(best_s, elapsed_s / count)
        count = max(1, round(PEAK_WINDOW_S / max(elapsed_s / count, 1e-9)))
    return 2 * side**3 / best_s


def measure_peaks(
    cell: Cell,
    framework: ModuleType,
    device: str,
    settings: dict[str, Any],
    team: ProcessGroup | None,
    *,
    profiled: bool,
) -> None:
    """Add the peak rates to the settings, of all devices together as the throughput is.

    They are measured last, as their large arrays would hide training's peak memory.
    If one fails, the record does not have it: the measurements remain valid, and the log holds the reason.
    """
    try:
        settings["peak_flops_per_s"] = peak_flops_per_s(cell, framework, device)
    except Exception:
        traceback.print_exc()
    if team:
        team.add_up(settings, "peak_flops_per_s", device)
    if profiled:
        from suite.worker.profilers import profiling as table

        try:
            if team:
                team.ranks.barrier()  # all at once, since devices of a CPU share its memory
            settings["peak_bytes_per_s"] = table.peak_bytes_per_s(cell.framework, device)
        except Exception:
            traceback.print_exc()
        if team:
            team.add_up(settings, "peak_bytes_per_s", device)


def lstm_error(cell: Cell, weights: dict[str, Array], tokens: Array, logits: Array) -> float:
    """The relative error of an LSTM's logits. Raises `PrecisionError` where it is too large for the precision."""
    error = relative_error(np.ravel(logits), lstm_logits(weights, tokens))
    if not error <= PRECISIONS[cell.precision].lstm_most:
        raise PrecisionError(f"asked for {cell.precision}, but the LSTM's logits are off by {error:.1e} of float64")
    return error


def lstm_logits(weights: dict[str, Array], tokens: Array) -> Array:
    """`imdb_lstm` in NumPy and float64: int tokens (b, length) to logits (b,)."""
    parameters = {name: array.astype(np.float64) for name, array in weights.items()}
    units = len(parameters["lstm/recurrent"])
    cell = state = np.zeros((len(tokens), units))
    for words in tokens.T:
        x = parameters["embedding/table"][words]
        gates = x @ parameters["lstm/kernel"] + state @ parameters["lstm/recurrent"] + parameters["lstm/bias"]
        i, f, g, o = np.split(gates, 4, axis=1)
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        state = _sigmoid(o) * np.tanh(cell)
    logits: Array = (state @ parameters["logits/kernel"] + parameters["logits/bias"])[:, 0]
    return logits


def relative_error(computed: Any, expected: Array) -> float:
    """Root mean square of the difference over root mean square of what is right."""
    difference = np.asarray(computed, np.float64) - expected
    return float(np.linalg.norm(difference.ravel()) / np.linalg.norm(expected.ravel()))


def _convolution(images: Array, kernel: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel.shape[:2], axis=(1, 2))
    result: Array = np.tensordot(windows, kernel, axes=([3, 4, 5], [2, 0, 1]))
    return result


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result
