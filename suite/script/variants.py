"""What is launched of a script: its command, and variants that differ in arguments, environment or interpreter."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, product
from pathlib import Path

from framework_training_suite import CommandError
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.settings import SCRIPT
from suite.catalog.suggest import unknown
from suite.plan.settings.switches import list_switches
from suite.record.parts.environment import own_cores, redact
from suite.record.parts.words import HIDDEN, asks, hide, hide_word, is_private

#: Stands in an argument for the number of the launch.
LAUNCH = "{launch}"
AS_IT_IS = ""
#: Letters of a variant's name that are shown of one argument or variable.
LABEL_MOST = 40
#: Letters of a variant's whole name (`suite.catalog.settings`).
NAME_MOST = 120


class ScriptError(CommandError, ValueError):
    """A command line of which nothing can be launched; one line."""


@dataclass(frozen=True)
class Variant:
    """A command with its own environment variables; ``name`` is that of its rows, empty for the script as it is."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def line(self, number: int = 0) -> list[str]:
        """The words of the command for one launch."""
        return [word.replace(LAUNCH, str(number)) for word in self.command]

    def join(self, label: str, name: str, value: str, *, is_variable: bool) -> Variant:
        """The variant with one more variable or argument."""
        joined = "+".join(filter(None, (self.name, label)))
        if is_variable:
            return Variant(joined, self.command, {**self.environment, name: value})
        return Variant(joined, with_argument(self.command, name, value), self.environment)

    @property
    def prefix(self) -> str:
        """What to put before the command to have this environment; a value that may be a secret is hidden."""
        shown = {name: HIDDEN if is_private(name) else shlex.quote(value) for name, value in self.environment.items()}
        return " ".join(f"{name}={value}" for name, value in shown.items())

    def public(self, number: int = 0) -> str:
        """The command of a launch as a record may have it: without private places, and values that may be secrets."""
        return redact(" ".join([self.prefix, *hide(self.line(number))])).strip()

    def redact(self, text: str) -> str:
        """A text that its launch printed, as a record may have it."""
        for value in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return redact(text)

    def _secrets(self) -> set[str]:
        found = {value for name, value in self.environment.items() if is_private(name)}
        for before, word in pairwise(["", *self.command]):
            name, equals, value = word.partition("=")
            found |= {value} if equals and is_private(name) else {word} if asks(before) else set()
        return {value for value in found if len(value) > 3}


def digest_of(variants: Iterable[Variant]) -> str:
    """A digest of what is launched, here: the commands without secrets, and the scripts as they are."""
    told = hashlib.sha256(str(Path.cwd()).encode())
    for each in variants:
        told.update(repr((each.name, each.prefix, hide(each.command))).encode())
        for path in (Path(word) for word in each.command if word.endswith(".py")):
            told.update(path.read_bytes() if path.is_file() else b"")
    return told.hexdigest()[:16]


def workload_of(command: Sequence[str]) -> str:
    """The workload's name of a command: that of its script, or of its first word."""
    script = next((word for word in command if word.endswith(".py")), command[0])
    stem = re.sub(r"[^a-z0-9]+", "_", Path(script).stem.lower()).strip("_")
    return f"{SCRIPT}{stem if stem[:1].isalpha() else f's_{stem}'}"[:39].rstrip("_")


def read_variants(options: Namespace) -> list[Variant]:
    """The variants that the options ask for, in their order: lists crossed with each other. Raises `ScriptError`."""
    command = find_command(options.command)
    variants = [Variant(AS_IT_IS, command)]
    if options.python:
        variants = [Variant(_label("python", path), with_python(command, path)) for path in options.python.split(",")]
    for option, text in (*product(["--env"], options.env), *product(["--vary"], options.vary)):
        name, values = _split(option, text)
        variants = [
            each.join(label, name, value, is_variable=option == "--env")
            for each, (label, value) in product(variants, _labelled(name, values))
        ]
    variants += [_other(text) for text in options.vs]
    if options.tried and len(variants) > 1:
        raise ScriptError("--try is for the script as it is: leave out --vary, --env, --python and --vs, or --try")
    if options.tried:
        check_switches(options.tried, chain(*map(list_switches, FRAMEWORKS)))
    if len({each.name for each in variants}) < len(variants):
        raise ScriptError("two variants are the same; name each value once")
    return variants


def find_command(words: Sequence[str]) -> tuple[str, ...]:
    """The command of a script, with its interpreter. Raises `ScriptError` where there is none."""
    words = [*words[1:]] if words[:1] == ["--"] else [*words]
    if not words:
        raise ScriptError("name the script to measure, such as train.py, after the options")
    if words[0].endswith(".py"):
        if not Path(words[0]).is_file():
            raise ScriptError(f"there is no script {words[0]}")
        words = [shutil.which("python") or shutil.which("python3") or "python", *words]
    if not shutil.which(words[0]):
        raise ScriptError(f"{words[0]!r} is no program here; put a script or a command after the options")
    return tuple(words)


def with_python(command: Sequence[str], python: str) -> tuple[str, ...]:
    """The command of a script with another interpreter. Raises `ScriptError`."""
    path = shutil.which(python)
    if not path:
        raise ScriptError(f"--python: {python!r} is no program")
    if not Path(command[0]).name.startswith("python"):
        raise ScriptError("--python is for a command that begins with a script or with python")
    return str(Path(path).absolute()), *command[1:]


def with_argument(command: Sequence[str], name: str, value: str) -> tuple[str, ...]:
    """The command with this value of ``--NAME``, in the place where it stands or at the end."""
    option = name if name.startswith("-") else f"--{name}"
    words, at = [*command], next((at for at, word in enumerate(command) if word.partition("=")[0] == option), None)
    if at is None:
        return *words, option, value
    if "=" in words[at]:
        words[at] = f"{option}={value}"
    else:
        words[at + 1 : at + 2] = [value]
    return tuple(words)


def switches(asked: str, framework: str, device: str, script: Variant, ranks: int = 1) -> list[Variant]:
    """The script as it is, and with each of the switches that ``--try`` asks for. Raises `ScriptError`.

    ``all`` are those that this training can feel, whose variables are not set already, and that change no arithmetic.
    """
    known, own = list_switches(framework, len(own_cores()), ranks), {**os.environ, **script.environment}
    check_switches(asked, known)
    names = known if asked == "all" else asked.split(",")
    chosen = [known[name] for name in names if asked != "all" or known[name].may_help(device, own)]
    variables = {each.name: {**script.environment, **each.variables} for each in chosen}
    return [script, *(replace(script, name=name, environment=each) for name, each in variables.items())]


def check_switches(asked: str, known: Iterable[str]) -> None:
    """Raises `ScriptError` for a switch that is not known, and for ``all`` beside others."""
    names = dict.fromkeys(known)
    if wrong := [name for name in asked.split(",") if name not in names and asked != "all"]:
        raise ScriptError(unknown("--try", wrong[0], ("all", *names)))


def together(variants: Sequence[Variant]) -> Variant:
    """One variant with the variables of all, the first of those that set one otherwise; named after those it has."""
    names, variables = [], dict[str, str]()
    for each in variants:
        if all(variables.get(name, value) == value for name, value in each.environment.items()):
            names.append(each.name)
            variables |= each.environment
    return replace(variants[0], name="+".join(names)[:NAME_MOST].rstrip("+"), environment=variables)


def _split(option: str, text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    if not (name and equals):
        raise ScriptError(f"{option} is {text!r}; write NAME=VALUE,VALUE")
    return name, values.split(",")


def _other(text: str) -> Variant:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ScriptError(f"--vs: {str(error).lower()}") from None
    return Variant(_label("vs", " ".join(hide(words))), find_command(words))


def _labelled(name: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Each value with its variant's name, in which a value that may be a secret is its number."""
    if is_private(name):
        return [(_label(name, f"value{values.index(value) + 1}"), value) for value in values]
    return [(_label(name, value), value) for value in values]


def _label(name: str, value: str) -> str:
    """A variant's name as ids and file names may have it; a value that is cut or changed gets a digest."""
    given = name.lstrip("-"), value
    name, shown = (re.sub(r"[^A-Za-z0-9_.,:=@%-]+", "_", text) for text in (given[0], redact(hide_word(value))))
    if (name, shown) == given and len(name) + len(shown) < LABEL_MOST:
        return f"{name}={shown}"
    return f"{name[:LABEL_MOST]}={shown[-30:].lstrip('_-.')}~{hashlib.sha256(value.encode()).hexdigest()[:6]}"
