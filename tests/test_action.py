"""The composite action for CI: valid, free of injected inputs, and its scripts do what they say with stand-ins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import records
from tests.documents import ROOT

yaml: Any = pytest.importorskip("yaml", reason="needs PyYAML, of the extra docs")

ACTION = ROOT / ".github" / "actions" / "benchmark" / "action.yml"
EXAMPLE = ACTION.with_name("example.yml")
PAGE = ROOT / "docs" / "runs-and-ci.md"


def steps() -> dict[str, dict[str, Any]]:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return {step["id"]: step for step in action["runs"]["steps"]}


def checked(schema: str, path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="needs check-jsonschema: tox run -m reach-tests")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_action_is_valid() -> None:
    checked("vendor.github-actions", ACTION)


def test_the_example_is_valid_and_passes_inputs_that_exist() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    inputs = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"]
    (job,) = yaml.safe_load(text)["jobs"].values()
    (used,) = [step for step in job["steps"] if step.get("uses") == "./.github/actions/benchmark"]
    assert used["with"].keys() <= inputs.keys()
    checked("vendor.github-workflows", EXAMPLE)


def test_no_input_is_pasted_into_a_script() -> None:
    assert not [step["id"] for step in steps().values() if "${{" in step["run"]]


def test_every_input_is_described_and_used() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", ACTION.read_text(encoding="utf-8")))
    assert used == action["inputs"].keys()
    page = PAGE.read_text(encoding="utf-8")
    assert not [name for name in [*action["inputs"], *action["outputs"]] if f"`{name}`" not in page]


def run(step: str, folder: Path, **variables: str) -> tuple[int, str, dict[str, str]]:
    """The exit status of a step's script, the summary that it wrote, and its outputs."""
    (folder / "benchmark").mkdir(exist_ok=True)
    places = {"GITHUB_OUTPUT": "outputs", "GITHUB_STEP_SUMMARY": "summary"}
    files = {name: str(folder / place) for name, place in places.items()}
    variables |= {"RUNNER_TEMP": str(folder), "PYTHON": sys.executable, "PATH": "/usr/bin:/bin", **files}
    done = subprocess.run(
        ["bash", "-e", "-c", steps()[step]["run"]], cwd=ROOT, env=variables, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    outputs = (folder / "outputs").read_text() if (folder / "outputs").exists() else ""
    summary = (folder / "summary").read_text() if (folder / "summary").exists() else done.stderr
    return done.returncode, summary, dict(line.split("=", 1) for line in outputs.splitlines())


@pytest.mark.parametrize(
    ("times", "launches", "untested", "status", "verdict"),
    [(2.0, 3, "fail", 1, "slower"), (1.0, 1, "pass", 0, "untested")],
)  # fmt: skip
def test_the_verdict_is_that_of_the_comparison(
    times: float, launches: int, untested: str, status: int, verdict: str, tmp_path: Path
) -> None:
    held = [records.timed(1e-3 * (1 + n / 500), launch=n) for n in range(launches)]
    slower = [records.timed(times * 1e-3 * (1 + n / 500), launch=n) for n in range(launches)]
    base = records.save(tmp_path / "base.json", held)
    new = records.save(tmp_path / "new.json", [replace(each, run=each.run | {"id": "b"}) for each in slower], "b")
    found = run("compare", tmp_path, BASE=str(base), NEW=str(new), SLOWER="5", UNTESTED=untested)
    assert (found[0], found[2]["verdict"]) == (status, verdict), found[1]
    assert f"## Training benchmark: {verdict}" in found[1]
    assert "| pytorch" in found[1]


def test_without_a_base_the_table_is_posted_and_nothing_fails(tmp_path: Path) -> None:
    new = records.save(tmp_path / "new.json", records.launches(n=1))
    status, summary, outputs = run("compare", tmp_path, BASE="no/base.json", NEW=str(new), SLOWER="5", UNTESTED="fail")
    assert (status, outputs["verdict"]) == (0, "no-base")
    assert "No base at no/base.json" in summary
    assert "| pytorch" in summary


def test_measuring_leaves_a_run_that_can_be_a_base(suite: Any) -> None:
    places = {
        "RUNNER_TEMP": str(suite.folder),
        "GITHUB_OUTPUT": str(suite.folder / "outputs"),
        "PYTHON": sys.executable,
    }
    chosen = {"MATRIX": "smoke", "LAUNCHES": "1", "ARGUMENTS": "--data synthetic --device cpu -p no:cacheprovider"}
    done = subprocess.run(
        ["bash", "-e", "-c", steps()["measure"]["run"]], cwd=ROOT, env=suite.environment | places | chosen,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    path = Path((suite.folder / "outputs").read_text().removeprefix("run=").strip())
    assert json.loads(path.read_text())["suite"]["run"]["matrix"] == "smoke"
