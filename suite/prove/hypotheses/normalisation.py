"""Of normalisations: epsilon, the variance's divisor, the momentum of running statistics."""

from __future__ import annotations

import numpy as np

from suite.prove.case import Case, explains
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
    for (slope, _, n), name in zip(fits, case.sides[0], strict=True):
        if not (explains(slope, 1.0) or explains(slope, n / (n - 1))):
            return ""
        words.append(f"{name} divides by n{'' if explains(slope, 1.0) else f' - 1 (n = {n})'}")
    return "; ".join(words)


def momentum(case: Case) -> str:
    """One keeps the share of the running mean that the other takes of the batch's."""
    shares = _shares(case)
    if shares is None or not explains(sum(shares), 1.0):
        return ""
    words = f"{case.one.framework} {shares[0]:.4g}, {case.other.framework} {shares[1]:.4g}"
    return f"of the batch's statistics, {words}: one's momentum is the other's 1 - momentum"


def another_momentum(case: Case) -> str:
    """The sides take two shares of the batch's mean."""
    shares = _shares(case)
    if shares is None or explains(sum(shares), 1.0):
        return ""
    return f"of the batch's statistics, {case.one.framework} {shares[0]:.4g}, {case.other.framework} {shares[1]:.4g}"


def _shares(case: Case) -> list[float] | None:
    """The shares of the batch's mean in the running one, which starts at zero; None if they are the same."""
    layer = case.layer
    if layer is None or same(layer.pair("mean")):
        return None
    shares = []
    for side in (layer.one, layer.other):
        x, mean = side.get("input"), side.get("mean")
        if x is None or mean is None or x.shape[-1:] != mean.shape:
            return None
        batch = x.mean(tuple(range(x.ndim - 1)))
        share = float(batch @ mean / max(float(batch @ batch), 1e-300))
        if not explains(share * batch, mean):
            return None
        shares.append(share)
    return shares


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


def _fits(case: Case) -> list[tuple[float, float, int]] | None:
    """Of both sides slope and epsilon of variance in the divisor's square, and n; None if it is no line."""
    layer = case.layer
    if layer is None or layer.affine is None or not case.place.inside:
        return None
    fits = [_fit(layer, side) for side in (layer.one, layer.other)]
    return None if None in fits else [fit for fit in fits if fit is not None]


def _fit(layer: Layer, side: dict[str, Array]) -> tuple[float, float, int] | None:
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
            return float(slope), float(constant), x.size // biased.size
    return None
