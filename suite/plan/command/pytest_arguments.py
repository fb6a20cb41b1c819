"""What `training-suite run` is to pytest, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework_training_suite import PROGRAM

SUITE = Path(__file__).resolve().parents[2]
RUN = f"{PROGRAM} run"
SAVE = "--benchmark-save"
#: What says whether and how a run is saved; without any of them it is, under the name of its matrix.
SAVING = (SAVE, "--no-save", "--benchmark-autosave", "--benchmark-disable")

#: What `pytest suite` takes from pyproject.toml, for an installation without that file.
CONFIGURED = ("-psuite.plugin", "--benchmark-save-data")


def pytest_arguments(words: Sequence[str]) -> list[str]:
    """The arguments of pytest for those of ``training-suite run``: short in a checkout, complete everywhere else."""
    saving = [] if {word.partition("=")[0] for word in words} & {*SAVING} else [SAVE]
    if Path("suite").resolve() == SUITE and Path("pyproject.toml").is_file():
        return ["suite", *words, *saving]
    return [*CONFIGURED, str(SUITE), *words, *saving]


def command_words(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The program and the words that give pytest these arguments: `training-suite run`, unless a file is named."""
    if not {"suite", str(SUITE)} & {*arguments}:
        return "pytest", [*arguments]
    implied = ("suite", str(SUITE), "--pyargs", SAVE, *CONFIGURED)
    words = []
    for before, word, after in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        is_named = word == SAVE and after not in ("", "suite", str(SUITE)) and not after.startswith("-")
        if word not in implied or is_named or before in ("-k", "-m"):
            words.append(word)
    return RUN, words
