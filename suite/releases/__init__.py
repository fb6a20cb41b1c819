"""Environments of releases of a framework: which there are, how one is resolved, built, kept and removed."""
