"""One rank of a proof: some steps on its share of each batch. Run as a program, with the variables of a rank.

``python -m tests.ranked CELL OUTPUT [CHANGE]``: rank 0 writes the losses and the weights. ``CHANGE`` names a planted
difference.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

STEPS, GLOBAL_BATCH = 5, 16


def main(text: str, output: str, change: str = "") -> None:
    from suite.plan.cell import Cell
    from suite.plan.settings.frameworks import VARIABLES
    from suite.worker.distributed.process_group import ProcessGroup, find_training
    from suite.worker.distributed.ranks import join_ranks
    from suite.worker.frameworks import import_framework
    from workloads.data import synthetic
    from workloads.data.augment import Batches
    from workloads.spec import specification

    cell = Cell.from_json(json.loads(text))
    os.environ.update(VARIABLES[cell.framework])
    ranks = join_ranks()
    framework: Any = import_framework(cell.framework)
    team = ProcessGroup(cell, ranks) if cell.devices > 1 else None
    if team:
        team.connect("cpu")
    device, _ = framework.prepare(cell, "cpu", 0)
    if team:
        team.configure(device)
    if change == "keras-sums":  # what Keras does where nobody divides
        import_module(
            "suite.worker.frameworks.tensorflow.devices"
        ).Training._loss_and_gradients = framework.Training._loss_and_gradients
    if change == "deepspeed-clips":  # what DeepSpeed does where nobody says otherwise
        deepspeed: Any = import_module("suite.worker.frameworks.pytorch.deepspeed")
        made = deepspeed.configuration
        deepspeed.configuration = lambda *given: (
            made(*given) | {"gradient_clipping": 1.0, "zero_optimization": {"stage": 1}}
        )
    spec = specification(cell.workload, cell.size)
    data = spec.arrange(synthetic.generate(spec.data, 200, 20 if spec.data == "imdb" else 100))
    source = Batches(data, cell.effective_batch, 0, getattr(spec, "length", None), share=team and team.share())
    module = import_module(f"workloads.{cell.workload}.{cell.framework}")
    make = find_training(framework, cell, team)
    training = make(cell, spec, module, spec.reference_weights(7), device, dropout=False)
    losses = []
    for number in range(STEPS):
        batch = training.put(source[number])
        if not number:
            training.compile(batch)
        losses += training.read([training.step(batch)])
    weights = training.weights()
    if not ranks.rank:
        with Path(output).open("wb") as file:
            np.savez(file, losses=np.array(losses), **weights)
    ranks.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
