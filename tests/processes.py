"""What tests of processes ask: whether one lives, and whether what it wrote can be published."""

from __future__ import annotations

import contextlib
import getpass
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_public(text: str) -> None:
    """Asserts that neither this machine's name nor its user's nor a place on it is in the text."""
    names = [socket.gethostname()]
    with contextlib.suppress(KeyError, OSError):  # a user id without a name, as containers have it
        names.append(getpass.getuser())
    for name in names:
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    for place in (Path.home(), Path.cwd(), Path(sys.prefix)):
        assert len(place.parts) < 2 or str(place) not in text


def wait_until(condition: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
