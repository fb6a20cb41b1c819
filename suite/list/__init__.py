"""Lists the stored runs: ``training-suite list``."""
