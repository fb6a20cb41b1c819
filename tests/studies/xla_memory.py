"""``python -m tests.studies.xla_memory``: does XLA turn gradient checkpointing into memory?

Compiles the timed step of each workload that has blocks, with checkpointing and without, and prints what XLA itself
says of the program: its temporary memory and its floating-point operations. Nothing is run.
`docs/settings.md` has what follows from it.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse

import jax

from suite.plan.cell import CHECKPOINTINGS, SIZES, Cell
from suite.plan.matrix import OF_BLOCKS
from suite.worker.frameworks.jax import training as framework
from tests.frameworks import batches, module
from workloads.spec import specification


def main() -> None:
    """Print a line for each workload and value of the setting."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.xla_memory", description=__doc__)
    parser.add_argument("--workload", choices=OF_BLOCKS, action="append", help="default: all; may be repeated")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {jax.default_backend()}, size {options.size}, batch {options.batch}")
    print(f"{'workload':20}{'checkpointing':15}{'temporary MiB':>14}{'GFLOP':>8}")
    for workload in options.workload or OF_BLOCKS:
        spec = specification(workload, options.size)
        for value in CHECKPOINTINGS:
            cell = Cell(workload, "jax", batch=options.batch, size=options.size, checkpointing=value)
            device, _ = framework.prepare(cell, "auto", 0)
            weights = spec.reference_weights(0)
            training = framework.Training(cell, spec, module(workload, "jax"), weights, device, seed=0)
            training.compile(training.put(batches(spec, options.batch)[0]))
            megabytes = training.jitted.memory_analysis().temp_size_in_bytes / 2**20
            operations = training.jitted.cost_analysis()["flops"] / 1e9
            print(f"{workload:20}{value:15}{megabytes:>14,.0f}{operations:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
