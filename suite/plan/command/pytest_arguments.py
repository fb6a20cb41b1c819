"""What `training-suite run` is to pytest, and back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from framework_training_suite import PROGRAM

SUITE = Path(__file__).resolve().parents[2]
RUN = f"{PROGRAM} run"
SAVE = "--benchmark-save"
#: What says whether and how a run is saved; without any of them it is, under the name of its matrix.
SAVING = (SAVE, "--no-save", "--benchmark-autosave", "--benchmark-disable")

#: Variables that name more plugins or options of pytest, and its options that no source spells out.
PLUGGED, GIVEN = {"PYTEST_PLUGINS", "PYTEST_ADDOPTS"}, {"--help", "--version"}

#: What `pytest suite` takes from pyproject.toml, for an installation without that file.
CONFIGURED = ("-psuite.plugin", "--benchmark-save-data")


def pytest_arguments(words: Sequence[str]) -> list[str]:
    """The arguments of pytest for those of ``training-suite run``: short in a checkout, complete everywhere else."""
    saving = [] if {word.partition("=")[0] for word in words} & {*SAVING} else [SAVE]
    if Path("suite").resolve() == SUITE and Path("pyproject.toml").is_file():
        return ["suite", *words, *saving]
    return [*CONFIGURED, str(SUITE), *words, *saving]


def find_unknown(others: Sequence[str], words: Sequence[str]) -> str:
    """The first option among the ``others`` of a command line that no source of pytest or of its plugins names.

    Empty without one, and where the ``words`` or the environment name more plugins. Nothing is imported for it: pytest
    would say the same half a second later, in the words of a program that nobody called.
    """
    if any(word.startswith(("-p", "-c", "--rootdir")) for word in words) or PLUGGED & {*os.environ}:
        return ""
    asked = (word.partition("=")[0] for word in takewhile("--".__ne__, others) if word.startswith("--"))
    strange = [option for option in dict.fromkeys(asked) if option not in GIVEN]
    for path in _sources() if strange else ():
        text = path.read_text(errors="replace").replace("'", '"')
        strange = [option for option in strange if not _names(text, option)]
        if not strange:
            return ""
    return strange[0] if strange else ""


def _names(text: str, option: str) -> bool:
    """Whether a source spells out this option, or its beginning and its end: ``prefix = "benchmark-"``."""
    words = option.removeprefix("--").split("-")
    parts = [("-".join([*words[:at], ""]), "-".join(words[at:])) for at in range(len(words))]
    return f'"{option}"' in text or any(f'"{begin}"' in text and f'{end}"' in text for begin, end in parts if begin)


def _sources() -> Iterator[Path]:
    """The files of pytest, of its installed plugins, and of the suite's own."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    for name in dict.fromkeys(["_pytest", *(each.module.partition(".")[0] for each in entry_points(group="pytest11"))]):
        if spec := find_spec(name):
            folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
            yield from (path for folder in folders for path in sorted(folder.rglob("*.py")))
            yield from [Path(spec.origin)] if not folders and spec.origin else []
    yield from sorted((SUITE / "session").glob("*.py"))


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
