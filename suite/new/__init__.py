"""Writes the folder of a new workload, which runs as it stands."""
