"""The step of the workflow that takes the one added file from a pull request, run in a repository of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.documents import ROOT

STEP = "Take the one file that the request adds"
GOOD = {"results/submitted/card-1.bundle": b"content"}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def take(tmp_path: Path, files: dict[str, bytes]) -> tuple[int, bytes]:
    """The status of the step for a request with these files, and the file that it took."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra clusters-test)")
    made = yaml.safe_load((ROOT / ".github" / "workflows" / "submitted.yml").read_text(encoding="utf-8"))
    (script,) = (step["run"] for step in made["jobs"]["verify"]["steps"] if step.get("name") == STEP)
    origin, clone, temporary = (tmp_path / name for name in ("origin", "clone", "temporary"))
    temporary.mkdir()
    origin.mkdir()
    git(origin, "init", "--quiet")
    (origin / "README.md").write_text("a", encoding="utf-8")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "a")
    git(origin, "checkout", "--quiet", "-b", "request")
    for name, content in files.items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_bytes(content)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "b")
    head = git(origin, "rev-parse", "HEAD")
    git(origin, "checkout", "--quiet", "main")
    (origin / "other").write_text("main went on", encoding="utf-8")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "c")
    git(origin, "checkout", "--quiet", "--detach")
    git(origin, "merge", "--quiet", "--no-ff", "-m", "d", "request")
    git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", str(clone))
    environment = {**os.environ, "HEAD": head, "NUMBER": "7", "RUNNER_TEMP": str(temporary)}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=clone, env=environment, check=False, timeout=60)
    bundle = temporary / "submitted.bundle"
    return done.returncode, bundle.read_bytes() if bundle.exists() else b""


def test_one_added_bundle_is_taken(tmp_path: Path) -> None:
    assert take(tmp_path, GOOD) == (0, b"content")


@pytest.mark.parametrize(
    "files",
    [
        {**GOOD, "results/submitted/card-2.bundle": b"b"},
        {**GOOD, "suite/__init__.py": b"b"},
        {**GOOD, ".github/workflows/submitted.yml": b"b"},
        {"README.md": b"changed"},
        {"results/submitted/card.zip": b"b"},
        {"results/submitted/deeper/card.bundle": b"b"},
        {"results/submitted/$(touch pwned).bundle": b"b"},
        {"results/submitted/a\nb.bundle": b"b"},
        {"results/submitted/large.bundle": b"0" * (8 * 2**20 + 1)},
    ],
    ids=range(9),
)
def test_anything_else_is_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    status, taken = take(tmp_path, files)
    assert status != 0
    assert taken == b""
    assert not list(tmp_path.rglob("pwned*"))
