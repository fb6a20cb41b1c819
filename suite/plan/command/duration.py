"""A length of time on the command line, as every option that takes one understands it."""

from __future__ import annotations

import argparse
import re

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,9})\s*(s|m|min|h|)")


def duration(text: str) -> float:
    """The seconds of ``90s``, ``2m``, ``10min``, ``1.5h`` or plain ``90``, for argparse's ``type``."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, or such as 90s, 10min or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
