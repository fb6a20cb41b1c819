"""The input pipelines that are measured: one file per framework, with the same names in the same order.

Each has `batches`, which starts the cell's loader and returns an iterator over training batches on the device, without
end, in the order of `workloads.data.augment.Batches`; and `close`, which ends what the loader started. The iterator's
``settings`` say what the framework made of the cell's loader.
"""

from __future__ import annotations

import os


def tuned_workers(device: str) -> int:
    """Processes or threads that a tuned loader uses: none on a CPU, where they would take cores from the model."""
    return 0 if device == "cpu" else min(8, max(1, (os.cpu_count() or 2) // 2))
