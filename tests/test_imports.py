"""What a fresh interpreter has loaded after importing parts of the suite."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "optax", "grain"}


def loaded(*modules: str) -> set[str]:
    """Top-level names of all modules that importing these loads."""
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "suite.plugin",
        "suite.run",
        "suite.launch",
        "suite.worker",
        "suite.compare.__main__",
        "workloads.spec",
        "workloads.data.prepare",
        "workloads.cifar100_cnn.spec",
        "workloads.imdb_lstm.spec",
    ],
)
def test_no_framework_is_imported_but_by_its_own_files(module: str) -> None:
    assert not loaded(module) & FRAMEWORKS


def test_the_core_needs_the_standard_library_only() -> None:
    core = loaded("suite.cell", "suite.record", "suite.measure", "suite.job", "suite.environment")
    bare = loaded("json")  # what the environment itself loads at each start
    assert core - bare <= sys.stdlib_module_names | {"suite"}


def test_workloads_do_not_know_the_suite() -> None:
    assert "suite" not in loaded("workloads.spec", "workloads.data.prepare", "workloads.imdb_lstm.spec")
    assert not {path for path in ROOT.glob("workloads/**/*.py") if "suite" in imported(path)}


def test_frameworks_are_named_in_their_rooms_only() -> None:
    rooms = {ROOT / "suite" / "frameworks", ROOT / "suite" / "loaders"}
    others = [path for path in ROOT.glob("suite/**/*.py") if path.parent not in rooms]
    others += [path for path in ROOT.glob("workloads/**/*.py") if path.stem not in ("pytorch", "tensorflow", "jax")]
    assert others
    assert not {path for path in others if imported(path) & FRAMEWORKS}


def imported(path: Path) -> set[str]:
    """Top-level names of all that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}
