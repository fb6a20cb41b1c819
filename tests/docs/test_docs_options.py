"""The page with all options is made from the parsers: ``UPDATE_GOLDEN=1 pytest tests/docs`` writes it anew.

An option of several commands is described at the first of them; the others name it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from suite.__main__ import COMMANDS
from suite.catalog.settings import SWEPT
from tests.documents import ROOT, run_module
from tests.expected import golden

PAGE = ROOT / "docs" / "options.md"
HEAD = """\
# Options

All options of all commands, made from `--help`: of `run`, `compare` and `tune` with the first sentence, an option that
they share at the first of them; of the others the names. [Settings](settings.md) explains the axes,
[Commands](commands.md) the exit statuses.
"""
#: The commands but `run`, in the order of the page: first those whose options have more than a name here.
EXPLAINED = ("compare", "tune")
OTHERS = (
    "reproduce", "doctor", "profile", "prove", "new", "export mlflow", "export tensorboard", "export wandb",
    "export prometheus", "releases", "bisect", "checks plain", "checks loaders", "checks monitor", "data fetch",
    "data verify", "data where", "submit", "verify",
)  # fmt: skip
AXES = "[the axes](settings.md#the-axes)"
#: At the end of a help text.
DEFAULT = re.compile(r" \(default: [^()]*\)$")


class FoundError(Exception):
    """Carries the parser of a command out of it."""


def parser_of(command: str, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """The parser that a command makes for itself; of a command with parts, that of the part."""

    def found(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise FoundError(self)

    name, *parts = command.split()
    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", found)
        patched.setattr(sys, "argv", ["python -m", *parts])
        with pytest.raises(FoundError) as caught:
            run_module(COMMANDS[name][0], patched)
    parser: argparse.ArgumentParser = caught.value.args[0]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices[parts[0]]
    return parser


def of_parser(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        value = "" if action.nargs == 0 else "{" + ",".join(map(str, action.choices)) + "}" if action.choices else value
        names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
        yield ", ".join(names), formatter._expand_help(action) if action.help else ""


def of_pytest(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """The suite's own options of ``training-suite run``."""
    group: Any = config._parser.getgroup("suite")
    for option in group.options:
        attributes = option.attrs()
        choices = attributes.get("choices")
        value = attributes.get("metavar") or ("{" + ",".join(choices) + "}" if choices else "")
        yield f"{', '.join(option.names())} {value}".strip(), attributes.get("help", "")


def listed(rows: Iterable[tuple[str, str]]) -> str:
    def plain(text: str) -> str:
        return re.sub(r"([|<>*_\[\]\\])", r"\\\1", " ".join(text.replace("%%", "%").split()))

    brief = re.compile(r"\. .*?(?=$| \(default: [^()]*\)$)")  # all but the first sentence and the default
    return "".join(f"- `{name}`{f': {plain(brief.sub(str(), text))}' if text else ''}\n" for name, text in rows)


def describe(command: str, options: Iterable[tuple[str, str]], described: dict[tuple[str, str], str]) -> str:
    """The options of a command: those in ``described`` by name, the others in a list; these are added to it."""
    new: list[tuple[str, str]] = []
    shared: dict[str, list[str]] = defaultdict(list)
    for option in options:
        if option in described and option[1]:
            shared[described[option]].append(f"`{option[0].split()[0]}`")
        else:
            new.append(option)
    for name, text in new:
        # The default may differ: a command that states none can share the text of one that does.
        described |= dict.fromkeys([(name, text), (name, DEFAULT.sub("", text))], f"`{command}`")
    known = "; ".join(f"as for {other}: {', '.join(names)}" for other, names in shared.items())
    parts = [listed(new), f"{known[:1].upper()}{known[1:]}.\n" if known else ""]
    return "\n".join(filter(None, parts)) or "This command has no options.\n"


def test_the_page_lists_all_options(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    described: dict[tuple[str, str], str] = {}
    every = [*of_pytest(pytestconfig)]
    for name, text in (each for each in every if each[0].split()[0].removeprefix("--") in SWEPT):
        described |= dict.fromkeys([(name, text), (name, text.partition(" (default:")[0])], AXES)  # as in `suite.tune`
    suite = describe("run", every, described)
    parts = [
        HEAD,
        "## training-suite run\n",
        f"Besides these, all options of pytest and pytest-benchmark work.\n\n{suite}",
    ]
    others = []
    for command in (*EXPLAINED, *OTHERS):
        name = f"training-suite {command}"
        options = list(of_parser(parser_of(command, monkeypatch)))
        if command in EXPLAINED:
            parts += [f"## {name}\n", describe(command, options, described)]
        else:
            names = ", ".join(f"`{option.partition(' ')[0]}`" for option, _ in options)
            others.append(f"- `{name}`: {names}\n")
    parts += ["## Other commands\n", "".join(others)]
    golden(PAGE, "\n".join(parts))
