"""How many launches of a run are missing, in a sentence with the command that makes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from suite.analysis.missing import Count
from suite.record.text import clean

#: Options of ``pytest suite`` by the setting that a run records, with the values that need no option.
OPTIONS = {
    "matrix": ("--matrix", (None, "sweep")),
    "size": ("--size", (None,)),
    "batch": ("--batch", (None,)),
    "launches": ("--launches", (None,)),
    "seed": ("--seed", (None, 0)),
    "data": ("--data", (None, "auto")),
    "device": ("--device", (None, "auto")),
    "shard": ("--shard", (None,)),
    "epochs": ("--epochs", (None,)),
    "target": ("--target", (None,)),
}


def sentences(counts: Iterable[Count]) -> list[str]:
    """Returns ``12 of 96 launches are missing; run them with: ...`` for each run that is not complete."""
    return [_sentence(count) for count in counts if count.missing]


def _sentence(count: Count) -> str:
    least = "At least " if count.least else ""
    verb = "is" if count.missing == 1 else "are"
    return (
        f"{least}{count.missing} of {count.planned} launches of run {count.run} {verb} missing. "
        f"Run them with: {command(count.run, count.settings)}"
    )


def command(run: str, settings: Mapping[str, Any]) -> str:
    """Returns the command that continues the run with its own settings."""
    words = ["python", "-m", "pytest", "suite"]
    for name, (option, usual) in OPTIONS.items():
        value = settings.get(name)
        if isinstance(value, (str, int, float)) and value not in usual:
            words += [option, clean(value, 80)]
    axes = settings.get("sweep")  # "precision fp32,bf16 loader w2"
    for at, word in enumerate(clean(axes, 400).split() if isinstance(axes, str) else ()):
        words.append(word if at % 2 else f"--{word}")
    return shlex.join([*words, f"--resume={run}", "--benchmark-save"])
