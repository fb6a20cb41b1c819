"""An option of the command line that takes one of a few values, for argparse's ``type``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from suite.catalog.suggest import unknown


def one_of(what: str, choices: Iterable[str]) -> Callable[[str], str]:
    """A function that returns its text if it is one of the choices; else the error suggests the nearest one."""
    names = tuple(choices)

    def value(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(unknown(what, text, names))
        return text

    return value
