"""Treat a request to end (SIGTERM of a scheduler or a container, SIGHUP of a closed terminal) like Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

REQUESTS = (signal.SIGTERM, signal.SIGHUP)


def interruptible() -> Callable[[], None]:
    """Raise KeyboardInterrupt at the first request; the returned function restores the handlers.

    Later requests are ignored while the measurements are saved; SIGKILL ends the process at once. A signal that is
    already handled or ignored, as under ``nohup``, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    unhandled = [number for number in REQUESTS if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(number: int, _: FrameType | None) -> None:
        for request in unhandled:
            signal.signal(request, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    def restore() -> None:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)

    for number in unhandled:
        signal.signal(number, interrupt)
    return restore
