"""What is mistyped is answered before anything is imported that takes long."""

from __future__ import annotations

import subprocess
import sys
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
