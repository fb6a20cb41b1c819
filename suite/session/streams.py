"""The standard streams of a command: they stay writable where a reader leaves or the disk is full."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from framework_training_suite import FAILED


class Output(io.FileIO):
    """A standard stream that stays writable: from the first error on, what is written is dropped.

    So a command ends as ever, with all its files, where its reader has left (``| head``) or the disk is full.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return len(data)


@contextmanager
def writable(name: str) -> Iterator[None]:
    """A context in which the standard streams stay writable; the command ``name`` says what could not be written."""
    before, outputs = (sys.stdout, sys.stderr), _stay_writable()
    try:
        yield
    finally:
        error = _flush(outputs)
        if error:
            sys.stderr.write(f"{name}: its output cannot be written: {error}\n")
            sys.stderr.flush()
        sys.stdout, sys.stderr = before
    if error:
        raise SystemExit(FAILED)


def _stay_writable() -> list[Output]:
    """Put streams in place of the standard ones that are files, pipes or terminals, and return what they write to."""
    outputs = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            stream.flush()
            output = Output(stream.fileno(), "w", closefd=False)
            errors = "replace" if name == "stdout" else stream.errors  # a dash ends no command in an ASCII terminal
            text = io.TextIOWrapper(
                io.BufferedWriter(output), stream.encoding, errors, line_buffering=stream.line_buffering
            )
            setattr(sys, name, text)
            outputs.append(output)
    return outputs


def _flush(outputs: Sequence[Output]) -> str:
    """Write what is left, and return why something could not be written; empty also where a reader has left."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    errors = (each.error for each in outputs)
    return next((str(each.strerror) for each in errors if each and not isinstance(each, BrokenPipeError)), "")
