"""Faults in a user's own Python files, in one line that names the file and the line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

#: Where the files are that an error may come from besides the user's own.
HERE = Path(__file__).parent
#: The numbers of a tensor, as frameworks print them into their messages.
NUMBERS = re.compile(r"\[[\[\]\-\d.,e+\s]{24,}")

#: What a user's code may raise and a command must outlive: `SystemExit` too, and no Ctrl-C.
FAULTS = (Exception, SystemExit)


def fault_lies_in(error: BaseException, place: Path) -> bool:
    """Whether a frame of the error is in this folder."""
    return any(Path(each.filename).is_relative_to(place) for each in traceback.extract_tb(error.__traceback__))


def describe_fault(error: BaseException, place: Path) -> str:
    """The error, and where in this file or folder it arose, such as ``spec.py line 7: NameError: name 'x' is ...``.

    Where none of its lines is in there, one of the suite's own workloads or defaults: ``defaults/jax.py line 7``.
    """
    words = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, SyntaxError):
        file, line, words = error.filename or "", error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
        own = [frame for frame in frames if Path(frame[0]).is_relative_to(place)]
        ours = [frame for frame in frames if Path(frame[0]).parent.parent == HERE]
        file, line = (own or ours or [("", None)])[-1]
    name = Path(file).name if Path(file).is_relative_to(place) else "/".join(Path(file).parts[-2:])
    where = f"{name} line {line}: " if file and line else ""
    return where + " ".join(NUMBERS.sub("[...]", words).split())
