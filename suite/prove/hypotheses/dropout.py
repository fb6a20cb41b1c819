"""Of dropout, by its draws: none, another place, another rate, the rate for what is kept, no scale, a shared mask."""

from __future__ import annotations

from suite.prove.case import Case, explains
from suite.prove.draws import Compared, Mask
from suite.prove.numbers import distance


def in_evaluation(case: Case) -> str:
    """Two evaluations of a model with dropout are not the same."""
    for side in (case.one, case.other):
        dropped, again = side.arrays.get("evaluation/dropout"), side.arrays.get("evaluation/again")
        if dropped is not None and again is not None and distance(dropped, again) > 1e-9:
            return f"dropout stays on in {side.framework}'s evaluation"
    return ""


def elsewhere(case: Case) -> str:
    """One drops here, the other at a later layer; or each of another thing."""
    here = _here(case)
    if here is None:
        return ""
    one, other = here.one.mask, here.other.mask
    if one and other and one.drops and other.drops:
        return "" if one.of == other.of else f"{here.names[0]} drops {one.of}, {here.names[1]} {other.of}"
    first = next((at for at, mask in enumerate((one, other)) if mask and mask.drops), None)
    if first is None:
        return ""
    later = case.draws[case.draws.index(here) + 1 :]
    for each in later:
        masks = each.one.mask, each.other.mask
        still, drops = masks[first], masks[1 - first]
        if still and drops and drops.drops and not still.drops:
            places = f"{here.names[first]} drops before {here.layer.name}, {here.names[1 - first]} before"
            return f"{places} {each.layer.name}"
    return ""


def missing(case: Case) -> str:
    """One has a dropout that the other has nowhere."""
    here = _here(case)
    if here is None or here.masks is None or elsewhere(case):
        return ""
    for mask, against, name in zip(here.masks, here.masks[::-1], here.names, strict=True):
        if against.drops and not mask.drops:
            return f"{name} drops nothing, the other {against.share:.0%} of {against.of}"
    return ""


def rate_for_keep(case: Case) -> str:
    """The share that one drops is the share that the other keeps."""
    here, rates = _rates(case)
    if here is None or rates is None or not explains(rates[0] + rates[1], 1.0):
        return ""
    words = f"{case.one.framework} drops {rates[0]:.1%}, {case.other.framework} {rates[1]:.1%}"
    return f"{words}: the rate is taken for what is kept"


def another_rate(case: Case) -> str:
    """Both drop at the same place, another share."""
    here, rates = _rates(case)
    if here is None or rates is None or explains(rates[0] + rates[1], 1.0):
        return ""
    return f"{case.one.framework} drops {rates[0]:.4g}, {case.other.framework} {rates[1]:.4g}"


def unscaled(case: Case) -> str:
    """One leaves what it keeps as it is."""
    here = _here(case)
    if here is None or here.masks is None or not (here.masks[0].share and here.masks[1].share):
        return ""
    for mask, against, name in zip(here.masks, here.masks[::-1], here.names, strict=True):
        if explains(mask.scale, 1.0) and against.scale > 1 + 1e-6:
            return f"{name} does not scale what it keeps; the other multiplies it by {against.scale:.4g}"
    return ""


def shared(case: Case) -> str:
    """One draws one mask for several samples or positions, or the same in every pass."""
    here = _here(case)
    return here.common if here and not here.common.endswith("alike") else ""


def _here(case: Case) -> Compared | None:
    """The draws at the layer where the two differ first."""
    name = case.layer.name if case.layer else ""
    return next((each for each in case.draws if each.layer.name == name), None)


def _rates(case: Case) -> tuple[Compared | None, tuple[float, float] | None]:
    """The rates of both sides by the factor of what they keep, where they differ and the draws agree with them."""
    here = _here(case)
    if here is None or here.masks is None or here.common:
        return None, None
    one, other = (_rate(mask) for mask in here.masks)
    return (here, (one, other)) if one and other and not explains(one, other) else (None, None)


def _rate(mask: Mask) -> float:
    """The rate that scales by 1 / (1 - rate); 0 where the share that is dropped is not near it."""
    rate = 1 - 1 / mask.scale if mask.drops and mask.scale > 1 else 0.0
    return rate if abs(rate - mask.share) < 0.1 else 0.0
