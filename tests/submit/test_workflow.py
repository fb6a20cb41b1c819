"""The step of the workflow that takes the one added file from a pull request, run in a repository of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from suite.record.bundle import LARGEST
from suite.submit.__main__ import name_of
from suite.submit.contents import contents
from tests.documents import ROOT
from tests.published import RUNS

STEP = "Take the one file that the request adds"
GOOD = {"results/submitted/card-1.bundle": b"content"}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def commit(origin: Path, parents: list[str], files: dict[str, bytes], mode: str = "100644") -> str:
    """A commit with more files, also such as no file system takes."""
    git(origin, "read-tree", *(parents[:1] or ["--empty"]))
    for name, content in files.items():
        (origin / "content").write_bytes(content)
        blob = git(origin, "hash-object", "-w", "content")
        git(origin, "update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")
    tree = git(origin, "write-tree")
    return git(origin, "commit-tree", tree, "-m", "a", *(word for parent in parents for word in ("-p", parent)))


def take(tmp_path: Path, files: dict[str, bytes], mode: str = "100644") -> tuple[int, bytes]:
    """The status of the step for a request with these files, and the file that it took."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra clusters-test)")
    made = yaml.safe_load((ROOT / ".github" / "workflows" / "submitted.yml").read_text(encoding="utf-8"))
    (script,) = (step["run"] for step in made["jobs"]["verify"]["steps"] if step.get("name") == STEP)
    origin, clone, temporary = (tmp_path / name for name in ("origin", "clone", "temporary"))
    temporary.mkdir()
    origin.mkdir()
    git(origin, "init", "--quiet")
    first = commit(origin, [], {"README.md": b"a", "results/submitted/there.bundle": b"b"})
    head = commit(origin, [first], files, mode)
    main = commit(origin, [first], {"other": b"main went on"})
    git(origin, "update-ref", "refs/heads/main", main)
    git(origin, "update-ref", "refs/pull/7/merge", commit(origin, [main, head], files, mode))
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=main", f"file://{origin}", str(clone))
    environment = {**os.environ, "HEAD": head, "NUMBER": "7", "RUNNER_TEMP": str(temporary)}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=clone, env=environment, check=False, timeout=60)
    bundle = temporary / "submitted.bundle"
    return done.returncode, bundle.read_bytes() if bundle.exists() else b""


def test_one_added_bundle_is_taken(tmp_path: Path) -> None:
    assert take(tmp_path, GOOD) == (0, b"content")


def test_the_longest_name_of_a_bundle_is_taken(tmp_path: Path) -> None:
    made = contents(RUNS["0025_evidence"], tmp_path, look=False)
    longest = replace(made, about=replace(made.about, run={"id": "a" * 300}))
    assert take(tmp_path, {f"results/submitted/{name_of(longest)}": b"content"}) == (0, b"content")


@pytest.mark.parametrize("files", [
    {**GOOD, "results/submitted/card-2.bundle": b"b"},
    {**GOOD, "suite/__init__.py": b"b"},
    {**GOOD, ".github/workflows/submitted.yml": b"b"},
    {"README.md": b"changed"},
    {"results/submitted/there.bundle": b"changed"},
    {"results/submitted/card.zip": b"b"},
    {"results/submitted/deeper/card.bundle": b"b"},
    {"results/submitted/$(touch pwned).bundle": b"b"},
    {"results/submitted/a\nb.bundle": b"b"},
    {f"results/submitted/{'a' * 300}.bundle": b"b"},
    {f"results/submitted/{'a' * 121}.bundle": b"b"},
    {"results/submitted/THERE.bundle": b"b"},
    {"results/submitted/nul.bundle": b"b"},
    {"results/submitted/large.bundle": b"0" * (LARGEST + 1)},
], ids=range(14))  # fmt: skip
def test_anything_else_is_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    status, taken = take(tmp_path, files)
    assert status != 0
    assert taken == b""
    assert not list(tmp_path.rglob("pwned*"))


@pytest.mark.parametrize("mode", ["120000", "100755"])
def test_what_is_no_plain_file_is_refused(mode: str, tmp_path: Path) -> None:
    status, taken = take(tmp_path, {"results/submitted/card-1.bundle": b"../../../etc/passwd"}, mode)
    assert (status != 0, taken) == (True, b"")
