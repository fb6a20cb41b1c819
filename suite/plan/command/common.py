"""Options of the command line, each declared once for every command that has it.

An `Option` can be added to pytest's parser and to argparse's, which take the same words. What only one command has is
declared there.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from framework_training_suite import called, entry, spelled
from suite.catalog import devices, phases
from suite.catalog.suggest import stray_word, unknown, unknown_option
from suite.plan.cell import FRAMEWORKS, SIZES
from suite.plan.matrix import STUDIED, MatrixError
from suite.plan.measuring import LONGEST_S, LONGEST_TRAINING_S, WHOLE_BLOCKS
from suite.plan.measuring import PHASES as DEFAULT_PHASES
from suite.plan.settings.strategies import TRUSTED

#: What an error says of a value that is not of the type.
_NUMBERS = {int: "is no whole number", float: "is no number"}
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]{1,9}|[0-9]{0,9}\.[0-9]{1,9})\s*(s|m|min|h|)")


def duration(text: str) -> float:
    """The seconds of ``90s``, ``2m``, ``10min``, ``1.5h`` or plain ``90``, for argparse's ``type``."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, or such as 90s, 10min or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


def one_of(what: str, choices: Iterable[str]) -> Callable[[str], str]:
    """A function that returns its text if it is one of the choices; else the error suggests the nearest one."""
    names = tuple(choices)

    def value(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(unknown(what, text, names))
        return text

    return value


def list_of(what: str = "", choices: Iterable[str] = (), **others: Any) -> dict[str, Any]:
    """What makes an option take one or more of the choices, or of any texts, with commas or repeated."""
    one = one_of(what, choices) if what else str
    values = {"type": lambda text: [one(part.strip()) for part in text.split(",")]}
    return {**values, "action": "extend", "metavar": "LIST", **others}


def device(text: str) -> str:
    """A value of ``--device``: a kind, or ``cuda:N``, which `choose_gpu` acts on."""
    kind, colon, number = text.partition(":")
    if not colon:
        return one_of("device", devices.CHOICES)(text)
    if kind not in ("cuda", "gpu") or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no device; write cuda, or cuda:N for the N-th GPU, from 0")
    return f"cuda:{number}"


def choose_gpu(options: argparse.Namespace) -> None:
    """Let ``--device cuda:N`` be CUDA on the N-th GPU alone, for this process and its launches. Raises `MatrixError`.

    It is done as by hand, through ``CUDA_VISIBLE_DEVICES``, of which it is the N-th if that is set.
    """
    kind, _, number = str(getattr(options, "device", "")).partition(":")
    if not number:
        return
    if getattr(options, "on", LOCAL) != LOCAL:
        raise MatrixError(f"--device {options.device} is of this machine; set CUDA_VISIBLE_DEVICES on the cluster's")
    shown = devices.shown_gpus()
    if shown and int(number) >= len(shown):
        raise MatrixError(f"--device {options.device}: GPUs are counted from 0, and this machine shows {len(shown)}")
    os.environ[devices.VISIBLE] = shown[int(number)] if shown else number
    options.device = kind


#: The folder of a user's runs, which git ignores, and that of published ones, and of older versions.
OWN, PUBLISHED = Path(os.environ.get("SUITE_RUNS_DIR") or "runs"), Path("results")
#: Where runs are saved, their journals, and the answers of searches, unless the command line says otherwise.
SAVED, JOURNALS, ANSWERS = (OWN / name for name in ("saved", "journals", "tune"))
OLDER = {SAVED: PUBLISHED / "runs", JOURNALS: PUBLISHED / "journals"}


def with_older(folder: Path) -> list[Path]:
    """The folder; with the default one of a user's runs also that of the published and older ones."""
    return [folder, OLDER[folder]] if folder in OLDER else [folder]


#: What ``--resume`` without a value stands for: the run that fits best.
LATEST = "latest"
#: The engine that is used unless another one is asked for: this host.
LOCAL = "local"


@dataclass(frozen=True)
class Option:
    """An option: its flags, its help, and what else argparse's ``add_argument`` takes."""

    flags: tuple[str, ...]
    help: str
    others: dict[str, Any]

    def but(self, **others: Any) -> Option:
        """The option with another help or default, for a command where it means something else."""
        return replace(self, help=others.pop("help", self.help), others=self.others | others)


def option(*flags: str, help: str, **others: Any) -> Option:  # noqa: A002 - the name that argparse gives
    """An option with these flags; ``others`` are those of argparse's ``add_argument``."""
    return Option(flags, help, others)


def add(to: Callable[..., Any], *options: Option) -> None:
    """Add options with ``to``: ``addoption`` of a group of pytest's, or ``add_argument`` of a parser."""
    for each in options:
        to(*each.flags, help=each.help, **each.others)


WORKLOADS = option(
    "--workloads", metavar="PATH", action="append", default=[],
    help="folder of a workload from outside, or the name of an installed one; may be repeated",
)  # fmt: skip
LAUNCHES = option("--launches", type=int, metavar="N", help="fresh processes per cell (default: that of the matrix)")
MIN_WINDOW = option(
    "--min-window", type=duration, metavar="TIME",
    help="shortest timed window, such as 2s (default: that of the matrix)",
)  # fmt: skip
PHASES = option(
    "--phases", metavar="LIST",
    help=f"of every launch, train and one or more of: {', '.join(phases.CHOICES[1:])}; infer is throughput and latency "
    "of the trained model, checkpoint what saving it costs "
    f"(default: {', '.join(DEFAULT_PHASES)} in at most {WHOLE_BLOCKS} launches, then {phases.TRAIN} alone)",
)  # fmt: skip
MAX_TIME = option(
    "--max-time", type=duration, metavar="TIME",
    help=f"how long a launch may take, such as 20min (default: {LONGEST_S:g} s; {LONGEST_TRAINING_S:g} s for a "
    "training to the end)",
)  # fmt: skip
EPOCHS = option("--epochs", type=int, metavar="N", help="of trainings to the end (default: those of the recipe)")
MEMORY_LIMIT = option(
    "--memory-limit", type=float, metavar="GIB",
    help="memory that a launch may use on a CPU (default: no limit; with --batch auto, what is free)",
)  # fmt: skip
SEED = option(
    "--seed", type=int, default=0, metavar="N",
    help="seed of weights, batches, dropout and the order of launches (default: 0)",
)  # fmt: skip
DATA = option(
    "--data", type=one_of("data", ("auto", "real", "synthetic")), default="auto", metavar="KIND",
    help="real, synthetic, or auto: real data, or a synthetic twin of it if there is none (default: auto)",
)  # fmt: skip
DATA_DIR = option(
    "--data-dir", metavar="DIR", help="folder with the official archives or folders (default: $SUITE_DATA_DIR)"
)
DEVICE = option("--device", type=device, default="auto", metavar="DEVICE", help=devices.HELP)
GPU = option(
    "--gpu", type=lambda text: device(f"cuda:{text}"), dest="device", default=argparse.SUPPRESS, metavar="N",
    help="the N-th GPU, from 0, as --device cuda:N; CUDA_VISIBLE_DEVICES then shows it alone",
)  # fmt: skip
TRUSTED_NETWORK = option("--trusted-network", action="store_true", help=TRUSTED)
RESUME = option(
    "--resume", nargs="?", const=LATEST, metavar="RUN",
    help="continue the run with this id, or without an id the last run with these settings; launches that timed out, "
    "crashed or ended in an error run again",
)  # fmt: skip
WAIT_IDLE = option(
    "--wait-idle", type=duration, metavar="TIME",
    help="before the first launch, wait up to so long, such as 10min, until other processes leave the CPU alone",
)  # fmt: skip
PROFILE_MEMORY = option(
    "--profile-memory", action="store_true",
    help="with --profile, record the allocator's timeline too, where the framework has one",
)  # fmt: skip
PROFILE_CODE = option(
    "--profile-code", action="store_true",
    help="with --profile, keep what the compiler made: XLA's optimised HLO, torch.compile's code and graph breaks",
)  # fmt: skip
#: What the suite's checks of itself measure.
WORKLOAD = option("--workload", **list_of("workload", STUDIED), help=f"of {', '.join(STUDIED)} (default: all)")
FRAMEWORK = option("--framework", **list_of("framework", FRAMEWORKS), help=f"of {', '.join(FRAMEWORKS)} (default: all)")
SIZE = option("--size", choices=SIZES, default="full", help="of the workloads (default: full)")
JOURNAL_FOLDER = option("--journals", type=Path, default=JOURNALS, metavar="DIR", help=f"default: {JOURNALS}")


def of_axis(axis: str, text: str) -> Option:
    """The option of an axis, a list with commas or repeated, with this help."""
    return option(f"--{axis}", metavar="LIST", help=text, action="append")


def join_values(values: str | list[str] | None) -> str | None:
    """The values of an option that may be given several times as one list."""
    return ",".join(values) if isinstance(values, list) else values


class CommandParser(argparse.ArgumentParser):
    """A parser of a command: answers wrong usage in one line, and acts on ``--device cuda:1``."""

    others: Sequence[str] = ()  # options of another parser that reads the same words, and what is near to none

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = [*(sys.argv[1:] if args is None else args)]
        options, strange = super().parse_known_args(words, namespace)
        own = [word for word in strange if word.partition("=")[0] not in self.others]
        names = self._option_string_actions
        if problem := unknown_option(words, own, names, self.prog) or stray_word(words, strange, names):
            self.error(problem)
        if not self.others:
            try:
                choose_gpu(options)
            except MatrixError as error:
                self.error(str(error))
        return options, strange

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, unknown("value", value, action.choices))
        super()._check_value(action, value)

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            if isinstance(error.__context__, argparse.ArgumentTypeError):
                raise
            lack = _NUMBERS.get(cast(Any, action.type), f"does not fit {action.metavar}")
            raise argparse.ArgumentError(action, f"{text!r} {lack}") from None

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with status 2."""
        line = "".join(letter if letter.isprintable() else " " for letter in message)
        self.exit(2, f"{self.prog}: {spelled(' '.join(line.split()))}; see --help\n")

    def format_help(self) -> str:
        return spelled(super().format_help())


def command_parser(command: str, description: str | None, epilog: str = "", *options: Option | str) -> CommandParser:
    """The parser of the command of this module. A text among the ``options`` begins a group with that title."""
    parser = CommandParser(
        prog=called(command), description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    to: Any = parser
    for each in options:
        if isinstance(each, str):
            to = parser.add_argument_group(each)
        else:
            add(to.add_argument, each)
    return parser


class Command(Protocol):
    parser: Callable[[], argparse.ArgumentParser]

    def __call__(self, arguments: Sequence[str] | None = None) -> int: ...


def command(
    name: str, description: str | None, epilog: str, *options: Option | str, then: str = ""
) -> Callable[[Callable[[argparse.Namespace], int]], Command]:
    """Makes a command of a function that takes the parsed options, and returns the exit status.

    The function imports what takes long by itself, so that what is mistyped is answered at once. Options are those of
    `command_parser`; errors, Ctrl-C and ``then`` are those of `framework_training_suite.entry`.
    """

    def decorate(run: Callable[[argparse.Namespace], int]) -> Command:
        def main(arguments: Sequence[str] | None = None) -> int:
            typed = argparse.Namespace(arguments=sys.argv[1:] if arguments is None else arguments)
            return run(made.parser().parse_args(typed.arguments, typed))

        made: Any = entry(then)(update_wrapper(main, run))
        made.parser = partial(command_parser, name, description, epilog, *options)
        return cast(Command, made)

    return decorate


def check_numbers(options: argparse.Namespace, positive: Iterable[tuple[str, str]] = ()) -> None:
    """Raise `MatrixError` for a number that makes no sense. ``positive`` are further options, with their units."""
    for name in ("launches", "epochs"):
        value = getattr(options, name, None)
        if value is not None and value < 1:
            raise MatrixError(f"--{name} is {value}; it must be at least 1")
    for name, unit in (("max_time", "seconds"), ("memory_limit", "GiB"), ("wait_idle", "seconds"), *positive):
        value = getattr(options, name, None)
        if value is not None and not 0 < value < math.inf:
            raise MatrixError(f"--{name.replace('_', '-')} is {value:g}; it must be more than 0 {unit}".rstrip())
