"""``python -m tests.studies.tolerances``: how far apart are the frameworks when they compute the same?

Trains a workload in all three from the same weights on the same batches, for several seeds, in one process on the CPU,
and prints the largest deviation between any two: of the loss of each step (relative), of the tensors' updates after two
steps and after all, as the fingerprint has them (relative), and of gradients and updates tensor by tensor (relative,
L2). The tolerances of `suite.analysis.identity.tolerances` come from its figures. Real data where it is to be had, else
the synthetic twin.

On a CPU (x86-64 with AVX-512; torch 2.13.0, TensorFlow 2.21.0, Keras 3.15.1, JAX 0.10.2) with real data and batch 8,
the fingerprint's own seed among the seeds, it found the following. At a batch of its own (32, n = 1 each) the full CNN
was off by 1.6e-4 in early updates, and the full LSTM (64) by 9.2e-6.

In float32, two threads (early figures: one):
                             seeds  first loss  to step 4  to step 10  updates early    late
  cifar100_cnn       full      10      1.0e-7     3.1e-7     9.5e-5      6.5e-5 (n = 3)  2.2e-2
                     full, own  1      1.0e-7     3.1e-7     3.4e-5      5.4e-5          8.5e-3
  cifar100_resnet18  full       4      2.6e-7        -       2.7e-3         -            6.2e-2
                     small, own 1      4.7e-7     3.1e-5     2.7e-4      4.7e-3          6.1e-2
  gpt_small          full       1      1.1e-7     2.0e-7     2.0e-7      1.7e-6          1.7e-6
                     small      3      2.2e-7     3.4e-7     3.4e-7      1.9e-6          1.4e-6
  imdb_lstm          full      10      1.7e-7        -       4.8e-7         -            1.8e-5
                     small      6      1.7e-7     8.7e-8     4.9e-7      8.7e-6          9.3e-6
  imdb_transformer   full       1      1.0e-8     4.4e-6     4.4e-6      2.0e-5          1.3e-5
                     small      3      1.7e-7     9.0e-7     9.0e-7      1.3e-5          1.1e-4
And in bf16:
  cifar100_cnn       full       3      1.0e-6        -       1.3e-4         -            6.6e-2
                     small      3      1.0e-7     1.4e-4     6.1e-4      4.4e-2          1.3e-1
  cifar100_resnet18  full       3      7.5e-4        -       1.3e-2         -            1.5e-1
                     small      4      6.9e-4     1.3e-3     2.5e-3      2.6e-1 (n = 2)  6.1e-1
  gpt_small          small      2      4.4e-6     1.2e-5     1.2e-5      1.4e-3          9.6e-4
  imdb_lstm          full       4      2.9e-5        -       3.0e-4         -            1.1e-2
                     small      4      3.9e-5     4.5e-5     3.5e-4      7.3e-3 (n = 2)  5.3e-3
  imdb_transformer   small      1      7.2e-5     9.6e-4     9.6e-4      1.7e-2          4.3e-1
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
