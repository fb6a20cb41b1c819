"""A package that declares something new by an entry point, and what the suite then says about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parent.parent

#: What comes before the code that asks.
FIRST = """
import io, json
from contextlib import redirect_stdout, suppress
from pathlib import Path

seen = {}

def printed(act):
    with redirect_stdout(text := io.StringIO()), suppress(SystemExit):
        act()
    return " ".join(text.getvalue().split())
"""


def ask(folder: Path, kind: str, declared: str, asked: str) -> dict[str, Any]:
    """Declares a thing of this kind by the code of one file, and returns what other code then puts into ``seen``.

    The file defines `FAKE`. The other code runs after `FIRST`, in a fresh interpreter, in ``folder``, which is empty
    before.
    """
    (folder / "fake.py").write_text(dedent(declared))
    installed = folder / "fake-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[framework_training_suite.{kind}]\nfake = fake:FAKE\n")
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    code = f"{FIRST}{dedent(asked)}\nprint(json.dumps(seen))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen
