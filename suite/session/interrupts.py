"""The signals by which a run is asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interruptible() -> Callable[[], None]:
    """Raise KeyboardInterrupt at the first request; the returned function restores the handlers.

    Later requests, a second Ctrl-C too, are ignored while the worker is ended and the measurements are saved; SIGKILL
    ends the process at once. A signal that is already handled or ignored, as under ``nohup``, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in REQUESTS}
    unhandled = {number: handler for number, handler in before.items() if handler in defaults}

    def ignore(number: int, _: FrameType | None) -> None:
        """In place of SIG_IGN, which later processes would inherit and which races with a signal just caught."""

    def interrupt(number: int, _: FrameType | None) -> None:
        for request in unhandled:
            signal.signal(request, ignore)
        raise KeyboardInterrupt(signal.Signals(number).name)

    def restore() -> None:
        for number, handler in unhandled.items():
            signal.signal(number, handler)

    for number in unhandled:
        signal.signal(number, interrupt)
    return restore
