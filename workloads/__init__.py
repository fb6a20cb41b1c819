"""The training workloads: what is computed, on which data, from which weights. Imports nothing of `suite`."""
