"""What an error says about a name, an option or a word that does not exist: what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from framework_training_suite import PROGRAM

#: A part of a name, such as `lstm`, counts as near from this many letters on.
PART_LEAST = 3

#: What others call it.
ALSO_CALLED = {
    "gpu": "cuda", "tf": "tensorflow", "single": "fp32", "float32": "fp32", "tensorfloat32": "tf32", "half": "fp16",
    "float16": "fp16", "bfloat16": "bf16", "double": "fp64", "float64": "fp64", "amp": "bf16",
    "benchmark": "run", "bench": "run", "measure": "run", "start": "run", "train": "run", "report": "compare",
    "show": "compare", "fastest": "compare", "ci": "compare", "publish": "submit", "best": "tune",
    "results": "list", "ls": "list", "runs": "list", "env": "doctor", "info": "doctor",
}  # fmt: skip

#: Options of other tools, and the suite's words for them, each of the first command here that has it.
OPTIONS = {
    "--dtype": "--precision", "--amp": "--precision bf16", "--fp16": "--precision fp16", "--bf16": "--precision bf16",
    "--model": "--workload", "--dataset": "--workload", "--benchmark": "--workload", "--backend": "--framework",
    "--gpus": "--devices", "--num-gpus": "--devices", "--nproc-per-node": "--devices", "--num-workers": "--loader w2",
    "--runs": "--launches", "--repeat": "--launches", "--repeats": "--launches", "--min-runs": "--launches",
    "--iterations": "--min-window", "--steps": "--min-window", "--warmup": "--min-window", "--filter": "-k",
    "--bench": "-k", "--only": "-k", "--timeout": "--max-time", "--time": "--budget", "--duration": "--budget",
    "--name": "--benchmark-save", "--save": "--benchmark-save", "--dry-run": "--collect-only -q",
    "--list": "--collect-only -q", "--json": "--format json", "--export-json": "--format json",
    "--export-markdown": "--format markdown", "--markdown": "--format markdown", "--csv": "--output DIR",
    "--export-csv": "--output DIR", "--html": "--format html", "--output-dir": "--output", "--outdir": "--output",
    "--out": "--output", "-o": "--output", "--group-by": "--by", "--sort": "--by", "--reference": "--baseline",
    "--threshold": "--fail-if slower=5%", "--fail": "--fail-if slower=5%", "--compile-mode": "--compile",
    "--trials": "--budget", "--quick": "--matrix smoke", "--smoke": "--matrix smoke", "--install": "--build",
    "-v": "--verbose", "--cell": "-k", "--cost": "--price-hour", "--pdf": "--extra pdf",
    "--regression": "--fail-if slower=5%",
}  # fmt: skip
#: The command that has an option of these words where the one that was typed has not; otherwise it is ``run``.
OF_COMPARE = ("--format", "--output", "--by", "--baseline", "--fail-if", "--verbose", "--price-hour", "--extra")
HOMES = dict.fromkeys(OF_COMPARE, "compare") | {"--build": "releases"}


def unknown_option(arguments: Sequence[str], strange: Iterable[str], names: Iterable[str], prog: str) -> str:
    """What to write for the first option among ``strange`` whose meaning is known or near; empty if none is.

    ``arguments`` are all, and ``names`` the options of the command ``prog``.
    """
    known = list(names)
    for argument in strange:
        option, _, value = argument.partition("=")
        words = OPTIONS.get(option) or nearest(option, known) if option.startswith("-") else ""
        if not words and option.removeprefix("--") in _chosen(known):
            return (
                f"unknown option {option}; it chooses what `{PROGRAM} run` measures, and there is no such choice here"
            )
        if not words:
            continue
        value = value or "".join(arguments[arguments.index(argument) + 1 :][:1])
        words += f" {ALSO_CALLED[_plain(value)]}" if _plain(value) in ALSO_CALLED and " " not in words else ""
        flag = words.partition(" ")[0]
        home = f"{PROGRAM} {HOMES.get(flag, 'run')}"
        elsewhere = option in OPTIONS and flag in HOMES and prog == f"{PROGRAM} run"
        is_own = prog == home or (flag in known and not elsewhere)
        meant = f"did you mean {words}?" if is_own else f"use `{home} {words}`"
        return f"unknown option {option}; {meant}"
    return ""


def _chosen(names: Iterable[str]) -> Iterable[str]:
    """The settings that a run chooses; none for a command that chooses any by itself."""
    from suite.catalog.settings import SETTINGS  # here, as it needs this module

    return [] if "--workload" in names else SETTINGS


def stray_word(words: Sequence[str], strange: Iterable[str], names: Iterable[str]) -> str:
    """What to write for the first word among ``strange`` that stands alone: ``cnn`` is ``--workload cifar100_cnn``.

    Empty without one; a file's name and what may be the value of an option that is not among ``names`` are left alone.
    """
    axes = _axes(names)
    for word in strange:
        earlier, before = ["", "", *words[: words.index(word)]][-2:]
        if word[:1] in ("-", "@") or (before.startswith("-") and "=" not in before) or _is_file(word):
            continue
        near = {axis: word if word in choices else nearest(word, choices) for axis, choices in axes.items()}
        axis = min(filter(near.get, near), key=lambda each: near[each] != word, default="")
        if not axis:
            return f"{word!r} is no option, and no file of that name is here"
        values = f"{before},{near[axis]}" if earlier == f"--{axis}" else near[axis]
        return f"{word!r} is no option; write --{axis} {values}"
    return ""


def _axes(names: Iterable[str]) -> dict[str, Iterable[str]]:
    """Those of the settings whose values are words of their own, and that a command has an option for."""
    from suite.catalog.settings import SETTINGS  # here, as it needs this module

    return {name: SETTINGS[name].choices for name in ("workload", "framework", "precision") if f"--{name}" in names}


def _is_file(word: str) -> bool:
    return Path(word.partition("::")[0]).exists()


def unknown(what: str, value: object, choices: Iterable[str], also: str = "") -> str:
    """The text of an error: ``unknown framework 'pytroch'; did you mean 'pytorch'? There are: ...``.

    ``also`` is what else is allowed besides the choices.
    """
    names = list(choices)
    near = nearest(str(value), names)
    listed = ", ".join([*names, *([also] if also else [])])
    return f"unknown {what} {value!r}; " + (
        f"did you mean {near!r}? There are: {listed}" if near else f"there are: {listed}"
    )


def nearest(value: str, choices: Iterable[str]) -> str:
    """The choice that was probably meant; empty if none is near."""
    from difflib import get_close_matches  # here, since most starts of the suite need no error

    spelled = {_plain(choice): choice for choice in reversed(list(choices))}
    word = _plain(value)
    if (meant := ALSO_CALLED.get(word)) in spelled:
        return meant
    parts = [choice for plain, choice in spelled.items() if len(word) >= PART_LEAST and word in plain]
    close = get_close_matches(word, spelled, n=1, cutoff=0.7 if len(word) == PART_LEAST else 0.6)  # tpu is no cpu
    return spelled[close[0]] if close else parts[-1] if parts else ""


def _plain(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")
