"""What runs are called: the name of the file, or a part of it, which is the number or the title."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.plan.suggest import nearest


def has_name(path: Path, name: str) -> bool:
    """Whether this is the file's name, with or without its suffix, or one of its parts."""
    number, _, title = path.stem.partition("_")
    return name in {path.stem, path.name, number, number.lstrip("0"), title} - {""}


def nearest_name(paths: Sequence[Path], name: str) -> str:
    """The name that was probably meant, the last file's first; empty if none is near, and for a number."""
    stems = [path.stem for path in reversed(paths)]
    titles = [title for stem in stems if (title := stem.partition("_")[2])]
    word = Path(name).name.removesuffix(".jsonl").removesuffix(".json")
    return "" if word.isdecimal() else nearest(word, [*titles, *stems])
