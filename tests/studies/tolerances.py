"""``python -m tests.studies.tolerances``: how far apart are the frameworks when they compute the same?

Trains a workload in all three from the same weights on the same batches, for several seeds, in one process on the CPU,
and prints the largest deviation between any two: of the losses (relative), of the tensors' updates as the fingerprint
has them (relative), and of gradients and updates tensor by tensor (relative, L2). The tolerances of
`suite.analysis.identity` come from its figures. Real data where it is to be had, else the synthetic twin.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version

from suite.plan.cell import FRAMEWORKS, PRECISIONS, SIZES, WORKLOADS
from suite.worker.fingerprint import BATCH, SEED, STEPS, movement
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
    worst = dict.fromkeys(("first loss", "losses", "updates", "gradients", "update tensors"), (0.0, ""))
    for seed in range(SEED, SEED + options.seeds):  # the first is the fingerprint's own
        weights = spec.reference_weights(seed)
        source = batches(spec, options.batch, seed, data)
        computed = {}
        for framework in FRAMEWORKS:
            with training(spec.name, framework, options.precision, spec.size, weights=weights) as running:
                computed[framework] = compute(running, source, options.steps)
        for pair in PAIRS:
            for name, found in _deviations(*(computed[framework] for framework in pair)).items():
                tensor = max(found, key=lambda each: found[each])
                worst[name] = max(worst[name], (found[tensor], f"{tensor}: {' and '.join(pair)}, seed {seed}"))
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.1e}" for name, (value, _) in worst.items()), flush=True)
    for name, (value, where) in worst.items():
        print(f"{name:>14} {value:.1e}  {where}")


def _deviations(one: Found, other: Found) -> dict[str, dict[str, float]]:
    norms = [movement(found.before, found.after) for found in (one, other)]
    losses = {f"step {i}": abs(a / b - 1) for i, (a, b) in enumerate(zip(one.losses, other.losses, strict=True), 1)}
    return {
        "first loss": {"step 1": losses["step 1"]},
        "losses": losses,
        "updates": {name: abs(norms[0][name] / norms[1][name] - 1) for name in norms[0]},
        "gradients": distances(one.gradients, other.gradients),
        "update tensors": distances(one.updates, other.updates),
    }


def _options() -> argparse.Namespace:
    description = (__doc__ or "").split("\n\n")[1]
    parser = argparse.ArgumentParser(prog="python -m tests.studies.tolerances", description=description)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


if __name__ == "__main__":
    main()
