"""The state of a running launch, for the last line of a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from suite.session.wording import duration


@dataclass
class State:
    """Shows a launch's name, what its worker does, and for how long it has run; refreshed at least once a second."""

    name: str
    show: Callable[[str], None]
    doing: str = "starting"
    _begin_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tick()

    def progress(self, message: dict[str, Any]) -> None:
        """Show a progress message of the worker."""
        rate = f" {message['samples_per_s']:,.0f} samples/s" if "samples_per_s" in message else ""
        self.doing = f"{message['progress']}{rate}"
        self.tick()

    def tick(self) -> None:
        """Show the state again, with the time that has passed."""
        self.show(f"{self.name}  {self.doing}, {duration(time.monotonic() - self._begin_s)}")
