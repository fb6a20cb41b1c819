"""How a workload is trained to its end: hyperparameters, schedule, epochs, and the accuracy to reach.

``study`` is what Elshawi et al. (DLBench, Cluster Computing 24, 2021) trained with, at a constant rate. ``modern``
warms up and decays, and was chosen to learn fast. ``no-dropout`` is the study's without what the frameworks draw for
themselves, so that their loss curves can be laid over each other.

``linear``, ``lars`` and ``lamb`` are for large batches, as several devices make them: the rate is that of the
workload's own batch, and grows with the global one, in proportion (Goyal et al., 2017) or with its square root (You et
al., 2020).

The learning rates of all steps are one table, computed here in NumPy; the frameworks look them up. In fp16, where a
step may overflow and change nothing, PyTorch takes the next rate after it, TensorFlow and JAX the same one again.

The runs that chose ``modern``, all on a CPU, in PyTorch, with real data, seed 0, warm-up and decay: the full LSTM ended
its three epochs at .872 with a rate of 1e-3 (after .560 and .843), and at .826 with 3e-3, whose loss had spikes. The
small CNN is too slim for the full one's dropout: with it, eight epochs ended at .137, .135 and .173 (seeds 100 to 102,
a rate of 0.05); without, four epochs at .264, .247 and .248 (the same seeds), and at .226 and .214 with rates of 0.02
and 0.1 (seed 100). The small LSTM with ``lamb`` and a batch of 256 ended three epochs at .839, .840 and .843 with rates
of 0.004, 0.01 and 0.02, and the small CNN with ``lars`` and a rate of 10 reached .156 after two (seed 100). The other
pairs of these recipes were not tried, and neither was the full CNN: it needs a GPU. No run chose the GPT's
figures, or the Transformer's: they are usual ones, and the small Transformer is best after one or two epochs. The small
GPT ended its epoch at a test loss of 4.86 and an accuracy of .186 (JAX, seed 0). What is chosen by test accuracy
flatters it a little, in all frameworks alike.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from workloads.data.dataset import Array
from workloads.optimizers import as_dict
from workloads.spec import Lamb, Lars, Optimizer, WorkloadSpec

#: Those whose optimizer scales each tensor's move by its norm.
OF_LAYERS = ("lars", "lamb")

#: How the learning rate grows with the batch: a power of its quotient by the reference batch.
POWERS = {"linear": 1.0, "root": 0.5}

#: Fields of recipes whose rate depends on the batch.
OF_BATCH = ("scaling", "reference_batch", "gradual")


@dataclass(frozen=True)
class Recipe:
    """``warmup`` is the share of all steps over which the rate rises to the optimizer's; with ``decay`` it falls to
    zero after that, along half a cosine (Loshchilov and Hutter, 2017). ``target`` is a test accuracy, or, above
    1, a test loss.

    With ``scaling``, one of `POWERS`, the optimizer's rate is that of updates of ``reference_batch`` samples, and the
    rate of other batches follows from it. With ``gradual`` it rises from the rate of the reference batch on, and from
    zero else.
    """

    optimizer: Optimizer
    epochs: int
    target: float
    warmup: float = 0.0
    decay: bool = False
    dropout: bool = True
    scaling: str = ""
    reference_batch: int = 0
    gradual: bool = False

    def rates(self, steps: int, batch: int = 0, beyond: int = 0) -> Array:
        """The learning rate of each step, float32 ``(steps + beyond,)``; ``batch`` samples make an update, the
        reference batch unless given. The steps ``beyond`` the last one have the full rate.
        """
        rate, start = self.optimizer.learning_rate, 0.0
        if self.scaling:
            scaled = rate * ((batch or self.reference_batch) / self.reference_batch) ** POWERS[self.scaling]
            rate, start = scaled, min(rate, scaled) if self.gradual else 0.0
        rising = round(self.warmup * steps)
        step = np.arange(steps)
        left = (step - rising) / max(1, steps - rising)
        falling = (1 + np.cos(math.pi * np.clip(left, 0, 1))) / 2 if self.decay else np.ones(steps)
        if schedule := self.optimizer.schedule:  # of the workload's own, besides the recipe's
            falling *= [schedule.factor(each) for each in range(steps)]
        risen = start / rate + (1 - start / rate) * (step + 1) / max(1, rising) if rate else falling
        rates = rate * np.where(step < rising, risen, falling)
        return np.append(rates, np.full(beyond, rate)).astype(np.float32)

    def apply_to(self, spec: WorkloadSpec) -> WorkloadSpec:
        """The spec with this recipe's optimizer."""
        return replace(spec, optimizer=self.optimizer)

    def digest(self, spec: WorkloadSpec) -> str:
        """Changes with anything that affects training: the spec, the schedule, the number of epochs."""
        settings = as_dict(replace(self, target=0.0))
        if not self.scaling:  # as before there were any
            settings = {name: settings[name] for name in settings if name not in OF_BATCH}
        text = json.dumps([self.apply_to(spec).digest, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def recipe(name: str, spec: WorkloadSpec, epochs: int | None = None, target: float | None = None) -> Recipe:
    """The recipe of this name for a workload; ``epochs`` and ``target`` replace its own."""
    usual = _FACTORIES[name](spec)
    return replace(usual, epochs=epochs or usual.epochs, target=usual.target if target is None else target)


def _study(spec: WorkloadSpec) -> Recipe:
    return Recipe(**vars(spec.studied))


def _modern(spec: WorkloadSpec, **changes: Any) -> Recipe:
    return replace(Recipe(**vars(spec.modern), warmup=0.1, decay=True, reference_batch=spec.batch), **changes)


_FACTORIES: dict[str, Callable[[WorkloadSpec], Recipe]] = {
    "study": _study,
    "modern": partial(_modern, reference_batch=0),
    "no-dropout": lambda spec: replace(_study(spec), epochs=1, dropout=False),
    "linear": partial(_modern, scaling="linear", gradual=True),
    "lars": partial(_modern, optimizer=Lars(10.0), scaling="linear"),
    "lamb": partial(_modern, optimizer=Lamb(1e-2), scaling="root"),
}
RECIPES = tuple(_FACTORIES)
