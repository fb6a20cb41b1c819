"""Whether this machine has a GPU to plan for (`suite.catalog.devices`)."""

from __future__ import annotations

from suite.catalog.devices import has_gpu

__all__ = ("has_gpu",)
