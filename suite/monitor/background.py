"""Is the machine busy before the first launch? Measured from the CPU time of all other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from suite.monitor.host import Host
from suite.monitor.sampler import OTHERS_MOST
from suite.record.parts.environment import own_cores

#: CPU time is counted in steps of 10 ms, so one second measures a core to 1 %.
OVER_S = 1.0


@dataclass(frozen=True)
class Background:
    """How many of the cores that a worker may use are busy with other processes, and the seconds waited for them."""

    busy_cores: float
    cores: int
    waited_s: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether launches would be flagged as contaminated."""
        return self.busy_cores > OTHERS_MOST * self.cores

    def __str__(self) -> str:
        return f"other processes use {self.busy_cores:.1f} of {self.cores} cores"

    def to_json(self) -> dict[str, Any]:
        return {name: round(value, 2) for name, value in asdict(self).items()}


def measure(over_s: float = OVER_S) -> Background:
    """The background load over ``over_s`` seconds; takes as long."""
    host = Host(os.getpid())
    before, begin_s = host.read()["other_cpu_s"], time.monotonic()
    time.sleep(over_s)
    busy_s, over_s = host.read()["other_cpu_s"] - before, time.monotonic() - begin_s
    return Background(max(0.0, busy_s / over_s), len(own_cores()))


def settle(
    wait_s: float | None, say: Callable[[str], None], show: Callable[[str], None],
    measure: Callable[[], Background] = measure,
) -> Background:  # fmt: skip
    """The background load, after waiting up to ``wait_s`` seconds for an idle machine.

    ``say`` gets a line if the machine is busy, and one when the wait begins; ``show`` gets the state while it waits.
    """
    begin_s = time.monotonic()
    background = measure()
    if background.busy and wait_s:
        say(f"busy machine: {background}; waiting up to {wait_s:.0f} s for it to become idle")
    while background.busy and (left_s := (wait_s or 0.0) - (time.monotonic() - begin_s)) > 0:
        show(f"waiting for an idle machine, {left_s:.0f} s left: {background}")
        background = measure()
    if wait_s is not None:
        waited_s = time.monotonic() - begin_s
        background = Background(background.busy_cores, background.cores, waited_s)
    if background.busy and wait_s is None:
        say(f"busy machine: {background}. Results will be too low and noisy; --wait-idle 600 waits up to 10 minutes")
    elif background.busy:
        say(f"warning: still busy after {background.waited_s:.0f} s: {background}. Measuring anyway")
    return background
