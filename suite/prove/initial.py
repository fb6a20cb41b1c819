"""The initial weights that frameworks draw themselves, compared as distributions; no part of the proof.

All get the same weights here, and in the suite. In trainings of one's own, losses may differ by this alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from suite.prove.numbers import Given, Numbers
from workloads.data.dataset import Array

#: The level of the tests of two frameworks, corrected over all tensors, and of the test that names an initialiser.
LEVEL = 0.001
#: Tensors that are named at most.
MOST = 8
#: Names of initialisers, by the shape of their distribution and their variance, of its inputs and outputs.
INITIALISERS: dict[str, tuple[str, Callable[[int, int], float]]] = {
    "kaiming_uniform with a = sqrt(5)": ("uniform", lambda fan_in, _: 1 / (3 * fan_in)),
    "lecun_normal": ("truncnorm", lambda fan_in, _: 1 / fan_in),
    "lecun_uniform": ("uniform", lambda fan_in, _: 1 / fan_in),
    "glorot_uniform": ("uniform", lambda fan_in, fan_out: 2 / (fan_in + fan_out)),
    "glorot_normal": ("truncnorm", lambda fan_in, fan_out: 2 / (fan_in + fan_out)),
    "he_uniform": ("uniform", lambda fan_in, _: 2 / fan_in),
    "he_normal": ("truncnorm", lambda fan_in, _: 2 / fan_in),
    "uniform to 1 / sqrt(width)": ("uniform", lambda _, fan_out: 1 / (3 * fan_out)),
    "normal, 1 / sqrt(width)": ("norm", lambda _, fan_out: 1 / fan_out),
    "standard normal": ("norm", lambda *_: 1.0),
    "normal of 0.02": ("norm", lambda *_: 0.02**2),
    "uniform to 0.05": ("uniform", lambda *_: 0.05**2 / 3),
}


def describe(one: Numbers, other: Numbers, given: Given) -> list[str]:
    """The lines: which tensors the two draw otherwise, and how; a tensor without scatter by its value."""
    sides = one, other
    for side in sides:
        if words := side.facts.get("undrawn"):
            return [f"  initial weights were not compared: {side.framework} drew none ({words})"]
    drawn = [side.group("initial") for side in sides]
    names = [name for name in drawn[0] if name in drawn[1]]
    if not names:
        return []
    differing = [name for name, p in zip(names, _test(drawn, names), strict=True) if p < LEVEL]
    if not differing:
        return ["  initial weights that the frameworks draw themselves: no difference seen"]
    words = [
        f"    {name}: " + ", ".join(f"{_say(own[name], given.weights[name])} in {side.framework}"
                                    for own, side in zip(drawn, sides, strict=True))
        for name in differing[:MOST]
    ]  # fmt: skip
    more = [f"    and {len(differing) - MOST} more"] if len(differing) > MOST else []
    return ["  initial weights that the frameworks draw themselves differ (here all get the same):", *words, *more]


def _test(drawn: list[dict[str, Array]], names: list[str]) -> list[float]:
    """The p-value of each tensor after Holm's correction: of two constants 1 or 0, else by Kolmogorov and Smirnov."""
    from scipy import stats  # here, since importing it takes a second, and not everybody has it

    from suite.analysis.statistics.inference import holm

    def test(name: str) -> float:
        a, b = (own[name] for own in drawn)
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            return float(np.ptp(a) == np.ptp(b) and math.isclose(a[0], b[0], rel_tol=1e-6))
        return float(stats.ks_2samp(a, b).pvalue)

    return holm([test(name) for name in names])


def _say(numbers: Array, tensor: Array) -> str:
    """Returns ``std 0.11 (lecun_normal)``, with the names of what the numbers may have been drawn by."""
    if np.ptp(numbers) == 0:
        return f"all {numbers[0]:g}"
    mean, names = float(np.mean(numbers)), " or ".join(_find_names(numbers, tensor))
    middle = f"mean {mean:.2g}, " if abs(mean) > 0.5 * np.std(numbers) else ""
    return f"{middle}std {np.std(numbers):.2g}{f' ({names})' if names else ''}"


def _find_names(numbers: Array, tensor: Array) -> list[str]:
    """The initialisers whose numbers these can be, which for some sizes are several; none of a vector."""
    from scipy import stats

    if tensor.ndim < 2:
        return []
    units = math.prod(tensor.shape[:-2])
    fans = units * tensor.shape[-2], units * tensor.shape[-1]
    shapes: Mapping[str, Any] = {
        "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)), "norm": stats.norm(),
        "truncnorm": stats.truncnorm(-2, 2, scale=1 / stats.truncnorm(-2, 2).std()),
    }  # fmt: skip
    found: list[str] = []
    for name, (shape, variance) in INITIALISERS.items():
        p = stats.kstest(numbers / math.sqrt(variance(*fans)), shapes[shape].cdf).pvalue
        if p >= LEVEL:
            found.append(name)
    return found
