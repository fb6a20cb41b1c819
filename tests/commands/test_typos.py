"""What is mistyped is answered before anything is imported that takes long."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What takes a tenth of a second or more to import, and no option needs.
HEAVY = {"numpy", "pandas", "scipy", "matplotlib", "pyarrow", "rich"}
#: Commands whose options are parsed first; NumPy is imported by `suite.session`'s rooms for some.
COMMANDS = ("suite.bisect", "suite.compare", "suite.profile", "suite.reproduce", "suite.tune")

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


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
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
    with pytest.raises(SystemExit, match=r"^2$"):
        import_module(f"suite.{command}.__main__").main(arguments.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("launches", ["0", "-1"])
def test_a_number_of_launches_that_is_none_is_refused(launches: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module("suite.reproduce.__main__").main(["smoke", "--launches", launches]) == 2
    assert "it must be at least 1" in capsys.readouterr().err
