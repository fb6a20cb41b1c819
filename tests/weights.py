"""What published runs weigh: bytes as the files lie on a disk, and as git stores each of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from suite.record.saved import run_name


@dataclass(frozen=True)
class Weight:
    disk: int
    git: int

    def __str__(self) -> str:
        return f"{self.disk / 1e3:,.0f} kB, {self.git / 1e3:,.0f} kB in git"


def weight(paths: Iterable[Path]) -> Weight:
    """Of these files, and of all in these folders. git compresses every file by itself, as zlib does."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    contents = [file.read_bytes() for file in files]
    return Weight(sum(map(len, contents)), sum(len(zlib.compress(content)) for content in contents))


def published(results: Path) -> dict[str, list[Path]]:
    """The saved runs below the folder, by name: each run's own file, and the folder of its comparison."""
    runs = sorted((results / "runs").rglob("*.json*"))
    names = list(map(run_name, runs))
    assert len({*names}) == len(runs), "two saved runs have one name; rename one of them"
    return {
        name: [run, *([results / name] if (results / name).is_dir() else [])]
        for name, run in zip(names, runs, strict=True)
    }
