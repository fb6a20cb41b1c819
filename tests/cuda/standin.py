"""A stand-in for NVML, for rehearsals: one whose energy counter goes by its own power reading."""

from __future__ import annotations

import time
from typing import Any

from tests.nvml import Nvml

POWER_W = 350  # what `tests.nvml` reads


class Card(Nvml):
    @property
    def energy_mj(self) -> int:
        return int(time.monotonic() * POWER_W * 1e3)

    @energy_mj.setter
    def energy_mj(self, value: Any) -> None:
        """The parent sets it to zero; the clock goes on."""
