"""Which readings of the monitor a comparison shows: as a figure of a row, and as a line over time."""

from __future__ import annotations

from suite.catalog.metrics import METRICS

#: Columns of `cells.csv`, and their names in ``record.metrics``. GPU figures are those of the first device.
HOST_FIGURES, GPU_FIGURES = (
    {name: metric.source.partition(".")[2] for name, metric in METRICS.items() if metric.source.startswith(device)}
    for device in ("host.", "gpu.")
)

#: What the ledger holds other figures against: a reading of the host, and counters over the windows of training.
JUDGED_READING, JUDGED_COUNTERS = "rss_bytes", ("cpu_s", "other_cpu_s")
#: The parts of a reading that are kept: what is shown, and what it lies between.
PARTS = ("median", "p5", "p95", "max")

#: The lines that are shown, by their names in a timeline.
HOST_LINES = ("cpu_cores", "rss_bytes")
GPU_LINES = ("gpu_utilisation_percent", "gpm_sm_utilisation_percent", "power_w", "memory_used_bytes")
