"""Around pytest-benchmark's own saving: one run at a time in a folder, and no half file where a disk is full."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class SaveError(RuntimeError):
    """Nothing could be saved; one line that says why, and where the launches are."""


@contextlib.contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """Hold the folder while something is saved there: two runs that end at once would take the same number.

    Raises `SaveError` for what the disk refuses, and leaves no file that was cut off.
    """
    if folder is None:
        yield
        return
    before: set[Path] = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("a") as lock:
            with contextlib.suppress(OSError):  # a file system without locks: as it was before
                fcntl.flock(lock, fcntl.LOCK_EX)
            before = set(folder.rglob("*.json"))
            yield
    except OSError as error:
        for path in set(folder.rglob("*.json")) - before:
            path.unlink(missing_ok=True)
        raise SaveError(f"cannot save in {folder}: {error.strerror or error}; make room") from None


def save_failed(config: pytest.Config, benchmarks: Any) -> None:
    """What pytest-benchmark does with a run, without benchmarks."""
    commit_info = config.hook.pytest_benchmark_generate_commit_info(config=config)
    config.hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit_info)
    output = config.hook.pytest_benchmark_generate_json(
        config=config, benchmarks=[], include_data=False,
        machine_info=benchmarks.get_machine_info(), commit_info=commit_info,
    )  # fmt: skip
    config.hook.pytest_benchmark_update_json(config=config, benchmarks=[], output_json=output)
    if benchmarks.json:
        benchmarks.save_json(output)
    if name := benchmarks.save or benchmarks.autosave:
        benchmarks.storage.save(output, name)
