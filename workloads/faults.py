"""Faults in a user's own Python files, in one line that names the file and the line."""

from __future__ import annotations

import traceback
from pathlib import Path

#: What a user's code may raise and a command must outlive: `SystemExit` too, and no Ctrl-C.
FAULTS = (Exception, SystemExit)


def fault_lies_in(error: BaseException, place: Path) -> bool:
    """Whether a frame of the error is in this folder."""
    return any(Path(each.filename).is_relative_to(place) for each in traceback.extract_tb(error.__traceback__))


def describe_fault(error: BaseException, place: Path) -> str:
    """The error, and where in this file or folder it arose, such as ``spec.py line 7: NameError: name 'x' is ...``."""
    words = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, SyntaxError):
        file, line, words = error.filename or "", error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
        own = [frame for frame in frames if Path(frame[0]).is_relative_to(place)]
        file, line = own[-1] if own else ("", None)
    where = f"{Path(file).name} line {line}: " if file and line else ""
    return where + " ".join(words.split())
