"""A request to end (SIGTERM of a scheduler or a container, SIGHUP of a closed terminal) is taken as Ctrl-C is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

REQUESTS = (signal.SIGTERM, signal.SIGHUP)


def interruptible() -> Callable[[], None]:
    """Raise KeyboardInterrupt at the first request; what it returns puts everything back.

    Later requests are ignored, so that what was measured can be saved: whoever waits no longer sends SIGKILL. A signal
    that is already handled or ignored, as under ``nohup``, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    taken = [number for number in REQUESTS if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    def restore() -> None:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)

    for number in taken:
        signal.signal(number, interrupt)
    return restore
