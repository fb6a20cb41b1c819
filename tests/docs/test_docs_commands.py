"""What README and documentation say to type works: commands are parsed by the real parsers, files and code are run.

A line of ``training-suite run`` is collected; a command's line goes through its own parser, which then ends; for tox
and pip the environments and extras must exist. What cannot be checked here has ``<!-- not run: REASON -->`` before it.
"""

from __future__ import annotations

import argparse
import configparser
import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pandas
import pytest

from suite.__main__ import COMMANDS
from suite.compare.__main__ import main
from tests.documents import PAGES, ROOT, Block, blocks, run_module
from tests.sessions import Suite, run_lines

BLOCKS = list(blocks())
SHELL = [block for block in BLOCKS if block.language == "sh" and not block.why]
LINES = sorted({line for block in SHELL for line in block.lines})

#: Run by a test of its own, which knows what the block needs.
ELSEWHERE = {"CONTRIBUTING.md": "tests/worker/test_settings.py"}
#: Programs that are not the project's, with what they are for.
OTHERS = {"python3 -m venv": "makes an environment", ". .venv/bin/activate": "enters it"}

#: How a run is started; without the script, and as what it is.
RUN = ("training-suite run", "python -m suite run", "pytest suite")
#: The module of a run, whose lines are collected.
MEASURED = COMMANDS["run"][0]
#: Pages that may spell a command otherwise than ``training-suite COMMAND``.
SPELLINGS = {"docs/commands.md", "CHANGELOG.md"}


class ParsedError(Exception):
    """A command line was understood."""


def words(line: str) -> list[str]:
    """The words of a command line, without variables in front, the environment's folder and a file for the output."""
    found = shlex.split(line.partition(" > ")[0])
    while re.fullmatch(r"\w+=.*", found[0]):
        found = found[1:]
    return [found[0].removeprefix(".venv/bin/"), *found[1:]]


def commands() -> list[list[str]]:
    """All commands, those that were joined by ``&&`` apart."""
    return [words(part) for line in LINES for part in line.split(" && ")]


def suite_lines() -> list[list[str]]:
    """The arguments of every run, and of what tox hands on to it."""
    lines = [" ".join(command).partition(f"{run} ")[0::2] for command in commands() for run in RUN]
    typed = [shlex.split(rest) for before, rest in lines if rest and not before]
    return [["suite", *line] for line in typed] + [
        ["suite", *command[command.index("--") + 1 :]]
        for command in commands()
        if command[:2] == ["tox", "run"] and "--" in command and "bench" in " ".join(command[:4])
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the documentation shows, under the names that they have there."""
    made = tmp_path_factory.mktemp("shown")
    for block in BLOCKS:
        if block.file:
            (made / block.file).write_text(block.text, encoding="utf-8")
    return made


def test_every_block_says_what_it_is() -> None:
    assert {block.language for block in BLOCKS} <= {"sh", "python", "toml", "yaml", "text", "{toctree}", "{include}"}


@pytest.mark.launches
def test_lines_of_pytest_suite_select_cells(folder: Path, tmp_path: Path) -> None:
    lines = []
    for line in suite_lines():
        shown = [re.sub(r"^(sweep\.toml|mine\.py)", rf"{folder}/\1", word) for word in line]
        # Whether a run is there to go on with, and a device to go on, is not the documentation's business.
        kept = [word for word in shown if word != "--resume" and not word.startswith("--benchmark-save")]
        # Nor whether a tracker is installed.
        kept = [word for word, before in zip(kept, ["", *kept], strict=False) if "--track" not in (word, before)]
        lines.append([*kept, "--collect-only", "-q", "-p", "no:cacheprovider", f"--journals={tmp_path}"])
    lines = [list(line) for line in dict.fromkeys(map(tuple, lines))]
    answers = run_lines(lines)
    assert not [(line, told) for line, (status, told) in zip(lines, answers, strict=True) if status]


def module_lines() -> list[list[str]]:
    """The arguments of every other command, first its module."""
    inside = [command[command.index("--") + 1 :] for command in commands() if command[:2] == ["tox", "exec"]]
    lines = [module_of(command) for command in (*commands(), *inside)]
    return list(map(list, dict.fromkeys(tuple(line) for line in lines if line and line[0] != MEASURED)))


def module_of(command: Sequence[str]) -> list[str]:
    """The module that a command runs, with its arguments; empty for other programs."""
    python = list(command[2:]) if list(command[:2]) == ["python", "-m"] else []
    own = [*command[1:]] if command[0] == "training-suite" else python[1:] if python[:1] == ["suite"] else []
    return [COMMANDS[own[0]][0], *own[1:]] if own and own[0] in COMMANDS else ["suite", *own] if own else python


@pytest.mark.parametrize("line", module_lines(), ids=" ".join)
def test_lines_of_commands_are_understood(line: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *arguments: object, **named: object) -> None:
        parse(self, *arguments, **named)  # type: ignore[call-overload]
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    monkeypatch.setattr(sys, "argv", ["python -m", *line[1:]])
    module, *arguments = line
    if importlib.util.find_spec(module) is None:
        pytest.fail(f"there is no module {module}")
    if module == "suite" and not arguments:
        with pytest.raises(SystemExit, match=r"^0$"):
            run_module(module, monkeypatch)
        return
    if module.startswith("tests.") and not arguments:
        return
    with pytest.raises(ParsedError):
        run_module(module, monkeypatch)


def environments_of_tox() -> configparser.ConfigParser:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    return tox


def test_the_command_of_the_readme_measures_and_compares(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `tox run -m bench` does after its environments and data are there, with stand-ins for the workers."""
    _, measure, compare = environments_of_tox()["testenv:bench"]["commands"].replace("{posargs}", "").splitlines()[-3:]
    assert measure.startswith("pytest suite ")
    done = suite(*shlex.split(measure)[1:])
    assert done.status == 0, done.output
    assert compare == "python -m suite.compare"
    assert main(["--storage", str(done.folder / "runs"), "--output", str(tmp_path / "out")]) == 0
    assert "pytorch" in capsys.readouterr().out.lower()
    assert (tmp_path / "out" / "report.html").exists()


def test_environments_and_extras_exist() -> None:
    tox = environments_of_tox()
    labels = {line.partition("=")[0].strip() for line in tox["tox"]["labels"].splitlines() if line}
    environments = {name.removeprefix("testenv:") for name in tox.sections()}
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for command in commands():
        if command[0] == "tox":
            own = command[: command.index("--")] if "--" in command else command
            option = dict(pairwise(own))
            assert option.get("-m", "bench") in labels, command
            assert set(option.get("-e", "quick").split(",")) <= environments, command
        elif command[0] == "pip":
            named = [extra for word in command for extra in re.findall(r"\[(.*)\]", word)]
            assert {extra for group in named for extra in group.split(",")} <= extras, command


def test_commands_have_one_spelling() -> None:
    pages = [page for page in PAGES if str(page.relative_to(ROOT)) not in SPELLINGS]
    module = rf"(?<![\w/.])suite\.(?:{'|'.join(COMMANDS)})\b(?! \d)"
    other = re.compile(rf"pytest suite|python -m (?:suite|workloads)\b|{module}")
    assert not {page.name: found for page in pages if (found := other.findall(page.read_text(encoding="utf-8")))}


def test_every_other_line_is_known() -> None:
    ours = ("training-suite", "pytest suite", "pytest tests", "python -m")
    known = (*ours, "tox run", "tox exec", "tox devenv", "pip install", *OTHERS)
    assert not [command for command in map(" ".join, commands()) if not command.startswith(known)]


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python" and not block.why], ids=lambda b: b.page.name
)
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.page.name in ELSEWHERE:
        assert "```python" in (ROOT / ELSEWHERE[block.page.name]).read_text(), "the test that runs this block is gone"
        return
    if "launches.csv" in block.text:
        table = pandas.read_csv(ROOT / "results" / "0025_evidence" / "launches.csv")
        table.to_csv(tmp_path / "launches.csv")
        table.to_parquet(tmp_path / "launches.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")  # published runs, which pages read
    names: dict[str, object] = {"pandas": pandas}
    for other in BLOCKS[: BLOCKS.index(block) + 1]:  # a block goes on from those before it on its page
        if other.page == block.page and other.language == "python" and not other.why:
            exec(other.text, names)


def test_what_is_not_run_says_why() -> None:
    assert all(len(block.why) > 10 for block in BLOCKS if block.why)
