"""Something new, declared in one file of an installed package, and what the suite then says about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

Ask = Callable[[str, str, str], dict[str, Any]]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Declares a thing of this kind by the code of one file, and returns what other code then prints as JSON.

    The file defines `FAKE`. The code runs in a fresh interpreter, in a folder of its own.
    """

    def answer(kind: str, declared: str, asked: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(kind)
        (folder / "fake.py").write_text(dedent(declared))
        installed = folder / "fake-1.0.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
        (installed / "entry_points.txt").write_text(f"[framework_training_suite.{kind}]\nfake = fake:FAKE\n")
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        code = f"import json\nfrom pathlib import Path\nseen = {{}}\n{dedent(asked)}\nprint(json.dumps(seen))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return answer
