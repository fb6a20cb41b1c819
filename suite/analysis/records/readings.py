"""Which readings of the monitor a comparison shows: as a figure of a row, and as a line over time."""

from __future__ import annotations

#: Columns of `cells.csv`, and their names in ``record.metrics``. GPU figures are those of the first device.
HOST_FIGURES = {"cpu_cores": "cpu_cores", "other_cpu_cores": "other_cpu_cores"}
GPU_FIGURES = {
    "gpu_utilisation_percent": "gpu_utilisation_percent",
    "sm_utilisation_percent": "gpm_sm_utilisation_percent",
    "sm_occupancy_percent": "gpm_sm_occupancy_percent",
    "tensor_percent": "gpm_tensor_percent",
    "dram_bandwidth_percent": "gpm_dram_bandwidth_percent",
    "gpu_memory_used_bytes": "memory_used_bytes",
    "power_w": "power_w",
    "sm_clock_mhz": "sm_clock_mhz",
    "temperature_c": "temperature_c",
}

#: The lines that are shown, by their names in a timeline.
HOST_LINES = ("cpu_cores", "rss_bytes")
GPU_LINES = ("gpu_utilisation_percent", "gpm_sm_utilisation_percent", "power_w", "memory_used_bytes")
