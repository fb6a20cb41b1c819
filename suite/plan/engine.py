"""Where launches start: the values of ``--on`` and ``--placement``, and what they mean."""

from __future__ import annotations

import argparse

#: The engine that is used unless another one is asked for: this host.
LOCAL = "local"

#: Engines, and what stands before the address of one that has an address.
ENGINES = (LOCAL, "ray", "slurm")
ADDRESSED = ("ray://",)

#: How the ranks of a launch are dealt to hosts: one host is filled after the other, or each has one before any has two.
PLACEMENTS = ("pack", "spread")

ON = (
    "where launches start: local, on this host; ray, on every host of the Ray cluster that this host belongs to; "
    "ray://HOST:PORT, of the one that this client server reaches; slurm, on every node of the allocation that this "
    "process runs in. Blocks run side by side, each on one host (default: local)"
)
PLACEMENT = (
    "with --on, how the processes of a cell with several devices are dealt to hosts: pack fills one host after the "
    "other, spread gives each host one before any gets a second (default: pack)"
)


def engine(text: str) -> str:
    """The value of ``--on``. Raises `argparse.ArgumentTypeError`."""
    if text == "kubernetes":
        raise argparse.ArgumentTypeError(
            "there is no engine kubernetes; use Ray there, by KubeRay: kubectl apply -f clusters/kubernetes/rayjob.yaml"
        )
    addressed = [start for start in ADDRESSED if text.startswith(start) and ":" in text[len(start) :]]
    if text not in ENGINES and not addressed:
        raise argparse.ArgumentTypeError(f"unknown engine {text!r}; there are: {', '.join(ENGINES)}, ray://HOST:PORT")
    return text
