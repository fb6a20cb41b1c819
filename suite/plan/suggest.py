"""What an error says about a name that does not exist (`suite.catalog.suggest`)."""

from __future__ import annotations

from suite.catalog.suggest import nearest, unknown

__all__ = ("nearest", "unknown")
