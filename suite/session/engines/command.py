"""A host's process that a command starts elsewhere, such as ``srun``: what the command prints says why it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.record.environment import redact
from suite.record.mark import MARK
from suite.record.text import clean
from suite.session.engines import HostLostError
from suite.session.engines.pipe import COMMAND, Pipe
from suite.session.launches import logs
from suite.session.launches.launch import ROOT, LaunchError


class Command(Pipe):
    """Lines over a command. ``output`` is a file for what it prints besides; ``variables`` are added to this process's.

    Raises `LaunchError` if it cannot be started.
    """

    def __init__(self, name: str, before: Sequence[str], output: Path, variables: Mapping[str, str]) -> None:
        self.output = output
        environment = {key: value for key, value in os.environ.items() if key != MARK} | dict(variables)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        try:
            with output.open("wb") as said:
                # In a session of its own: Ctrl-C is for this process, which then ends the others in order.
                super().__init__([*before, *COMMAND], environment, name, stderr=said, cwd=ROOT, start_new_session=True)
        except OSError as error:
            raise LaunchError(f"cannot start {before[0]}: {error.strerror}") from None

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, waiting for the first. Raises `HostLostError` with the last line that was printed."""
        try:
            return super().receive(within_s)
        except HostLostError:
            last = (logs.tail(self.output) or ["it printed nothing"])[-1]
            raise HostLostError(f"host {self.name} is lost: {clean(redact(last), 300)}") from None
