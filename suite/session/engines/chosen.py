"""The engine that ``--on`` names."""

from __future__ import annotations

from suite.session.engines import LOCAL, Host
from suite.session.engines.kubernetes import Kubernetes
from suite.session.engines.local import Local
from suite.session.engines.slurm import Slurm
from suite.session.launch import LaunchError


def host_on(name: str, local: Local) -> Host:
    """Where launches start. Raises `LaunchError` if there is no such engine, or it cannot be used here."""
    if name == LOCAL:
        return local
    if name == "slurm":
        return Slurm(local)
    if name == "kubernetes":
        return Kubernetes(local)
    raise LaunchError(f"--on is {name!r}; there are: {LOCAL}, slurm, kubernetes")
