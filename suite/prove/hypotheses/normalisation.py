"""Of normalisations: epsilon, the variance's divisor, the momentum of running statistics."""

from __future__ import annotations

import numpy as np

from suite.prove.case import Case, explains, factor
from suite.prove.numbers import EXPLAINED, Layer, same
from workloads.data.dataset import Array


def epsilon(case: Case) -> str:
    """Both divide by the root of variance plus epsilon, with another epsilon."""
    fits = _fits(case)
    if fits is None or abs(fits[0][0] - fits[1][0]) > EXPLAINED:
        return ""
    one, other = (fit[1] for fit in fits)
    if abs(one - other) <= 1e-3 * max(abs(one), abs(other)) + 1e-12:
        return ""
    return f"{case.one.framework} has {one:.3g}, {case.other.framework} {other:.3g}"


def variance(case: Case) -> str:
    """One divides the squares by n, the other by n - 1."""
    fits = _fits(case)
    if fits is None or abs(fits[0][0] - fits[1][0]) <= EXPLAINED:
        return ""
    words = []
    for (slope, _), name in zip(fits, case.sides[0], strict=True):
        count = slope / (slope - 1) if slope - 1 > EXPLAINED else 0.0
        words.append(f"{name} divides by n{f' - 1 (n = {count:.0f})' if count else ''}")
    return "; ".join(words)


def momentum(case: Case) -> str:
    """After a step, the running means are a constant multiple of each other."""
    layer = case.layer
    means = layer.pair("mean") if layer else None
    ratio = factor(*means) if means else None
    if ratio is None or ratio <= 0:
        return ""
    complement = 1 / (1 + ratio)
    if abs(complement - round(complement, 4)) < 1e-9:
        shares = f"{case.one.framework} {complement:.4g}, {case.other.framework} {1 - complement:.4g}"
        return f"of the batch's statistics, {shares}: one's momentum is the other's 1 - momentum"
    return f"{case.other.framework} takes {ratio:.4g} times as much of the batch's statistics"


def running(case: Case) -> str:
    """The running means agree, and the variances are a line with the slope (n - 1) / n of each other."""
    layer = case.layer
    variances = layer.pair("variance") if layer else None
    if layer is None or variances is None or not same(layer.pair("mean")) or variances[0].size < 3:
        return ""
    for (one, other), (_, biased) in zip((variances, variances[::-1]), case.sides, strict=True):
        slope, offset = np.polyfit(one, other, 1)
        count = 1 / (1 - slope) if slope < 1 else 0.0
        if count > 1.5 and abs(count - round(count)) < 1e-3 * count and explains(other, slope * one + offset):
            return f"{biased} takes the biased variance of n = {count:.0f} values, the other the unbiased one"
    return ""


def _fits(case: Case) -> list[tuple[float, float]] | None:
    """Of both sides, the slope and the epsilon of variance in the square of the divisor; None if it is no line."""
    layer = case.layer
    if layer is None or layer.affine is None or not case.place.inside:
        return None
    fits = [_fit(layer, side) for side in (layer.one, layer.other)]
    return None if None in fits else [fit for fit in fits if fit is not None]


def _fit(layer: Layer, side: dict[str, Array]) -> tuple[float, float] | None:
    x, y = side.get("input"), side.get("output")
    if x is None or y is None or x.shape != y.shape or layer.affine is None or x.shape[-1] != len(layer.affine[0]):
        return None
    scale, shift = layer.affine
    normal = (y - shift) / scale
    for axes in (tuple(range(x.ndim - 1)), (x.ndim - 1,)):  # over all but the channels, or over the features
        centred = x - x.mean(axes, keepdims=True)
        biased = (centred**2).mean(axes).ravel()
        # The divisor by least squares: each group has one.
        product = (centred * normal).sum(axes).ravel()
        if not np.all(product > 0):
            continue
        divisor = (centred**2).sum(axes).ravel() / product
        if biased.size < 3 or not np.ptp(biased):
            continue
        slope, constant = np.polyfit(biased, divisor**2, 1)
        if explains(divisor**2, slope * biased + constant):
            return float(slope), float(constant)
    return None
