"""What the targets that write files share: a folder that can be one, and files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.export.target import ExportError
from suite.record.scratch import scratch
from suite.record.text import clean


def folder_at(place: str) -> str:
    """The place, which is a folder or not there yet. Raises `ExportError`."""
    if Path(place).exists() and not Path(place).is_dir():
        raise ExportError(f"{clean(place)} is a file; give a folder with --to")
    return place


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a file system that refuses to be written into one line."""
    try:
        yield
    except OSError as error:
        raise ExportError(f"cannot write {clean(path)}: {error.strerror or error}; give a folder with --to") from None


def write_whole(file: Path, content: bytes) -> None:
    """Write the file, in place of one of this name, at once; a kill leaves the old one. Raises `ExportError`."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with scratch(file.parent, ".partial-") as folder:
            (folder / "whole").write_bytes(content)
            (folder / "whole").replace(file)
