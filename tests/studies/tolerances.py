"""``python -m tests.studies.tolerances``: how far apart are the frameworks when they compute the same?

Trains a workload in all three from the same weights on the same batches, for several seeds, in one process on the CPU,
and prints the largest deviation between any two: of the loss of each step (relative), of the tensors' updates after two
steps and after all, as the fingerprint has them (relative), and of gradients and updates tensor by tensor (relative,
L2). The tolerances of `suite.analysis.identity.tolerances` come from its figures. Real data where it is to be had, else
the synthetic twin.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version
from operator import attrgetter

from suite.plan.cell import FRAMEWORKS, PRECISIONS, SIZES, WORKLOADS
from suite.worker.evidence.fingerprint import BATCH, SEED, movement
from tests.frameworks import PAIRS, Found, batches, compute, distances, training
from workloads.data.cache import open_cached
from workloads.data.prepare import prepare
from workloads.spec import specification


def main() -> None:
    options = _options()
    # Before any framework counts the cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    spec = specification(options.workload, options.size)
    data = open_cached(prepare(spec.data))
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "tensorflow-cpu", "keras", "jax"))
    print(f"{platform.machine()}, {options.threads} threads, {versions}")
    print(f"{spec.name} {spec.size} {options.precision}, batch {options.batch}, {data.kind} data")
    worst: dict[str, tuple[float, str]] = {}
    for seed in range(SEED, SEED + options.seeds):  # the first is the fingerprint's own
        weights = spec.reference_weights(seed)
        source = batches(spec, options.batch, seed, data)
        computed = {}
        for framework in FRAMEWORKS:
            with training(spec.name, framework, options.precision, spec.size, weights=weights) as running:
                computed[framework] = compute(running, source, options.steps)
        own: dict[str, float] = {}
        for pair in PAIRS:
            for name, deviations in _deviations(*(computed[framework] for framework in pair)).items():
                tensor = max(deviations, key=lambda each: deviations[each])
                own[name] = max(own.get(name, 0.0), deviations[tensor])
                place = f"{tensor}: {' and '.join(pair)}, seed {seed}"
                worst[name] = max(worst.get(name, (0.0, "")), (deviations[tensor], place))
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.1e}" for name, value in own.items()), flush=True)
    for name, (value, where) in worst.items():
        print(f"{name:>14} {value:.1e}  {where}")


def _deviations(one: Found, other: Found) -> dict[str, dict[str, float]]:
    early, late = ([movement(found.before, after(found)) for found in (one, other)] for after in (_EARLY, _LATE))
    steps = enumerate(zip(one.losses, other.losses, strict=True), 1)
    losses = {f"loss {step}": {"": abs(a / b - 1)} for step, (a, b) in steps}
    return losses | {
        "early updates": {name: abs(early[0][name] / early[1][name] - 1) for name in early[0]},
        "updates": {name: abs(late[0][name] / late[1][name] - 1) for name in late[0]},
        "gradients": distances(one.gradients, other.gradients),
        "update tensors": distances(one.updates, other.updates),
    }


_EARLY, _LATE = attrgetter("early"), attrgetter("after")


def _options() -> argparse.Namespace:
    description = (__doc__ or "").split("\n\n")[1]
    parser = argparse.ArgumentParser(prog="python -m tests.studies.tolerances", description=description)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


if __name__ == "__main__":
    main()
