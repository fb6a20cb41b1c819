"""What is mistyped is answered before anything is imported that takes long."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from _pytest.config import get_config

from suite.__main__ import COMMANDS as SUITE
from suite.catalog import devices
from suite.catalog.precisions import PRECISIONS
from suite.catalog.suggest import ALSO_CALLED, HOMES, OPTIONS
from suite.compare import options as compare_options
from suite.plan.cell import FRAMEWORKS
from suite.plan.command.common import DEVICE, GPU, command_parser
from suite.plan.command.pytest_arguments import find_unknown
from suite.run import __main__ as running

ROOT = Path(__file__).parents[2]
#: What takes a tenth of a second or more to import, and no option needs.
HEAVY = {"numpy", "pandas", "scipy", "matplotlib", "pyarrow", "rich"}
#: Commands whose options are parsed first; NumPy is imported by `suite.session`'s rooms for some.
COMMANDS = (
    *("suite.bisect", "suite.compare", "suite.list", "suite.plot", "suite.profile", "suite.reproduce", "suite.tune"),
)

CODE = """
import runpy, sys
sys.argv = [sys.argv[1], "--no-such-option"]
try:
    runpy.run_module(sys.argv[0], run_name="__main__")
except SystemExit as end:
    print(end.code, *{name.partition(".")[0] for name in sys.modules})
"""


def loaded(code: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.parametrize("module", COMMANDS)
def test_a_mistyped_option_waits_for_no_library(module: str) -> None:
    status, *modules = loaded(CODE, module)
    assert status == "2"
    assert not HEAVY & set(modules)


def test_the_plugin_of_pytest_waits_for_none_either() -> None:
    assert not HEAVY & set(loaded("import sys, suite.plugin; print(*sys.modules)"))


def status_of(command: str, arguments: str) -> int:
    try:
        return int(import_module(f"suite.{command}.__main__").main(arguments.split()))
    except SystemExit as end:
        return int(str(end.code))


def test_run_answers_before_pytest_is_imported() -> None:
    for argument in ("--matix=smoke", "--device=gpu", "--workload=imdb_lstn", "--dtype=bfloat16", "--epochs=3"):
        status, *modules = loaded(CODE.replace("--no-such-option", argument), "suite.run")
        assert status == "2"
        assert not {"pytest", *HEAVY} & set(modules)


@pytest.mark.parametrize(("command", "arguments", "meant"), [
    ("run", "--dtype bfloat16", "--precision bf16"),
    ("run", "--model imdb_lstm", "--workload"),
    ("run", "--dry-run", "--collect-only -q"),
    ("run", "--list", "--collect-only -q"),
    ("run", "--batch-size 3", "--batch"),
    ("run", "--runs 3", "--launches"),
    ("run", "--export-json a.json", "training-suite compare --format json"),
    ("run", "--csv", "training-suite compare --output DIR"),
    ("compare", "--json", "--format json"),
    ("compare", "--csv a", "--output DIR"),
    ("compare", "--output-dir a", "--output"),
    ("compare", "-o a", "--output"),
    ("compare", "--dtype float32", "training-suite run --precision fp32"),
    ("compare", "--install", "training-suite releases --build"),
    ("plot", "0001 --output-dir a", "--output"),
    ("tune", "--dtype half", "--precision fp16"),
])  # fmt: skip
def test_options_of_other_tools_get_the_right_word(
    command: str, arguments: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(command, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(rf"unknown option {arguments.split()[-2 if ' ' in arguments else 0]}; [a-z ]*`?{meant}[?`]", line)


@cache
def described(command: str) -> set[str]:
    """The options in the help of a command."""
    with redirect_stdout(StringIO()) as text:
        assert status_of(command, "--help-all" if command == "run" else "--help") == 0
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text.getvalue()))


@pytest.mark.parametrize(("option", "words"), OPTIONS.items())
def test_the_right_word_is_one_of_the_command_that_is_named(option: str, words: str) -> None:
    flag, *values = words.split()
    home = HOMES.get(flag, "run")
    assert flag in described(home)
    assert option not in described(home)
    if values and home == "run":
        assert running.check(words.split()) == 0
    elif values:
        assert getattr(compare_options.parse(words.split()), flag.strip("-").replace("-", "_"))


def test_other_names_stand_for_some_that_there_are() -> None:
    names = {*SUITE, *devices.CHOICES, *FRAMEWORKS, *PRECISIONS}
    assert set(ALSO_CALLED.values()) <= names
    assert not ALSO_CALLED.keys() & names


@pytest.mark.parametrize(("text", "shown", "kept", "gpu"), [
    (["--device", "cuda:1"], "", "1", "cuda"), (["--gpu", "0"], "", "0", "cuda"),
    (["--gpu=1"], "4,7", "7", "cuda"), (["--device=gpu:0"], "GPU-a", "GPU-a", "cuda"),
    (["--device", "cuda"], "4,7", "4,7", "cuda"), ([], "4,7", "4,7", "auto"),
])  # fmt: skip
def test_a_gpu_is_chosen_by_its_number_as_by_hand(
    text: list[str], shown: str, kept: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices.Path, "glob", lambda *_: iter(["nvidia0", "nvidia1"]))
    monkeypatch.setenv(devices.VISIBLE, shown)
    parser = command_parser("suite.x", "", "", DEVICE, GPU)
    assert parser.parse_args(text).device == gpu
    assert os.environ[devices.VISIBLE] == kept


def test_a_gpu_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(devices.VISIBLE, "4,7")
    for arguments in (["--gpu", "2"], ["--gpu", "x"], ["--device", "tpu:0"], ["--device", "cuda:"]):
        with pytest.raises(SystemExit, match=r"^2$"):
            command_parser("suite.x", "", "", DEVICE, GPU).parse_args(arguments)
        assert "--device cuda:2: GPUs are counted from 0, and this machine shows 2" in capsys.readouterr().err or (
            arguments != ["--gpu", "2"]
        )
    assert os.environ[devices.VISIBLE] == "4,7"


@pytest.mark.parametrize("command", ["prove", "new", "checks.plain", "checks.monitor"])
def test_lists_are_written_alike(command: str) -> None:
    module = import_module(f"suite.{command}" if "." in command else f"suite.{command}.__main__")
    parser = module.main.parser()
    place = {"prove": ["a"], "new": ["workload", "a"]}.get(command, [])
    for words in (["--framework", "jax,pytorch"], ["--framework=jax", "--framework", "pytorch"]):
        assert parser.parse_args([*place, *words]).framework == ["jax", "pytorch"]


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("run", "imdb_lstm", "write --workload imdb_lstm"),
        ("run", "--framework jax pytorch", "write --framework jax,pytorch"),
        ("verify", "nosuch", "nosuch: No such file or directory"),
        ("export", "mlflw 3", "unknown value 'mlflw'; did you mean 'mlflow'?"),
        ("run", "--device tpu", "unknown device 'tpu'; there are: auto"),
        ("run", "cnn", "write --workload cifar100_cnn"),
        ("run", "--workload=imdb_lstm tf", "write --framework tensorflow"),
        ("run", "--on slrm", "did you mean 'slurm'?"),
        ("run", "nosuch", "'nosuch' is no option"),
        ("run", "--launches many", "'many' is no whole number"),
        ("tune", "cnn", "write --workload cifar100_cnn"),
        ("data", "fech", "did you mean 'fetch'?"),
        ("data", "fetch imbd", "did you mean 'imdb'?"),
        ("prove", "imdb_lstn", "did you mean 'imdb_lstm'?"),
        ("new", "", "workload, NAME"),
        ("compare", "--fail-if faster=12%", "write slower=12%"),
        ("compare", "--fail-if slower=12", "write slower=12%"),
        ("compare", "--fail-if fast", "write slower=5%"),
        ("compare", "--price-hour cheap", "'cheap' is no price"),
        ("compare", "--margin wide", "'wide' does not fit PERCENT"),
        ("run", "--epochs 3", "--epochs is for trainings to their end; add --matrix accuracy"),
        ("run", "--target .5 --matrix smoke", "--target is for trainings to their end"),
        ("prove", "a --framework pytroch", "--framework: unknown framework 'pytroch'; did you mean 'pytorch'?"),
        ("prove", "a --size smal", "--size: unknown value 'smal'; did you mean 'small'?"),
        ("run", "--device gpu", "--device: unknown device 'gpu'; did you mean 'cuda'?"),
        ("compare", "--by precison", "--by: unknown axis 'precison'; did you mean 'precision'? There are: acc"),
        ("compare", "--format htlm", "--format: unknown format 'htlm'; did you mean 'html'? There are: terminal"),
        ("compare", "--baseline pytroch", "--baseline: unknown framework 'pytroch'; did you mean 'pytorch'? There"),
        ("reproduce", "smoke --device cdua", "--device: unknown device 'cdua'; did you mean 'cuda'? There are: auto"),
        ("doctor", "--framework pytroch", "--framework: unknown framework 'pytroch'; did you mean 'pytorch'?"),
        ("verify", "a --format jsn", "--format: unknown format 'jsn'; did you mean 'json'?"),
        ("doctor", "--wait soon", "'soon' is no time"),
        ("bisect", "x --good 1 --bad 2 --min-window soon", "'soon' is no time"),
    ],
)  # fmt: skip
def test_a_mistyped_value_is_refused_in_one_line_with_the_nearest(
    command: str, arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(command, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("launches", ["0", "-1"])
def test_a_number_of_launches_that_is_none_is_refused(launches: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module("suite.reproduce.__main__").main(["smoke", "--launches", launches]) == 2
    assert "it must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--workload", "--framework=jax", "--batch"])
def test_who_asks_a_comparison_for_a_part_of_a_run_hears_where_that_is_chosen(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        compare_options.parse(["0032", option])
    assert "training-suite run" in capsys.readouterr().err


def test_an_option_that_nobody_has_is_answered_and_none_of_pytest_or_a_plugin_is() -> None:
    manager = get_config(["-p", "no:cacheprovider"]).pluginmanager
    manager.load_setuptools_entrypoints("pytest11")
    parser = manager.get_plugin("pytestconfig")._parser
    given = [name for group in (parser._anonymous, *parser._groups) for each in group.options for name in each.names()]
    assert {"--collect-only", "--benchmark-sort"} <= {*given}
    assert not [name for name in given if find_unknown([name], [name])]
    assert find_unknown(["-k", "jax", "--quiet=1", "--no-such-option=3"], []) == "--no-such-option"
    assert find_unknown(["--function"], []) == "--function", "a word of their sources, and no option"
    assert not find_unknown(["--", "--no-such-option"], []), "what follows is no option"
    assert not find_unknown(["--no-such-option"], ["-p", "mine", "--no-such-option"]), "which may be of that plugin"
    status, *modules = loaded(CODE, "suite.run")
    assert status == "2"
    assert not (HEAVY | {"pytest"}) & {*modules}
