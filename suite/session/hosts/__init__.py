"""The hosts of a cluster: an `agent` launches on each, and the run reaches it over a wire."""
