"""What the checker prints, what the workflows make of it, and what they may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.verify.__main__ import main
from suite.verify.rules import RULES
from tests.documents import ROOT
from tests.submit import tampering

WORKFLOWS = ROOT / ".github" / "workflows"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    made = tampering.honest("0025_evidence", folder)
    return tampering.bundle(folder / "honest.bundle", made, tampering.chained(made.lines))


def test_each_rule_has_one_line(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(path)]) == 0
    name, *lines, verdict = capsys.readouterr().out.splitlines()
    assert name == "honest.bundle"
    assert [int(line[3:5]) for line in lines] == [rule.number for rule in RULES]
    assert verdict.strip() == "accepted by all rules, 2 warnings"
    (tmp_path / "bad.bundle").write_bytes(b"nonsense")
    assert main([str(path), str(tmp_path / "bad.bundle")]) == 1
    assert main([str(tmp_path / "none.bundle")]) == 2


def test_a_table_is_made_of_what_another_process_wrote(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(path), "--format", "json"])
    answers = tmp_path / "answers.json"
    answers.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["--table", str(answers)]) == 0
    table = capsys.readouterr().out
    assert table.count("\n| ") == len(RULES) + 1
    assert "| 13 data | passed |" in table


HOSTILE = "x | y\n# title @everyone [a](http://e.org) <script> `c`"


@pytest.mark.parametrize(
    "content",
    [
        "nonsense", "{}", "[" * 50_000, "[1]", '[{"file": "a", "rules": [], "more": 1}]',
        '[{"file": "a", "rules": [{"rule": 99, "kind": "passed"}]}]',
        '[{"file": "a", "rules": [{"rule": 1, "kind": "ok"}]}]',
        '[{"file": "a", "rules": []}, {"file": "b", "rules": []}]', " " * (2 << 20),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_table_is_made_of_nothing_else(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    assert main(["--table", str(tmp_path / "a.json")]) == 2
    assert capsys.readouterr().out == ""


def test_words_of_a_stranger_change_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[dict[str, Any]] = [{"file": HOSTILE, "rules": [{"rule": 1, "kind": "failed", "why": HOSTILE}]}]
    (tmp_path / "a.json").write_text(json.dumps(answers), encoding="utf-8")
    assert main(["--table", str(tmp_path / "a.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert not [word for word in ("<script>", "http://", "[a](", "\n#", "@") if word in "\n".join(lines)]


def workflow(name: str) -> dict[Any, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra clusters-test)")
    found: dict[Any, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return found


def test_the_workflow_that_sees_the_file_has_no_rights() -> None:
    text = (WORKFLOWS / "submitted.yml").read_text(encoding="utf-8")
    made = workflow("submitted.yml")
    assert made["permissions"] == {"contents": "read"}
    assert "permissions" not in made["jobs"]["verify"]
    assert "pull_request_target" not in text
    assert "secrets" not in text.partition("name:")[2]
    checkout = made["jobs"]["verify"]["steps"][0]["with"]
    assert checkout["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert not checkout["persist-credentials"]


def test_the_workflow_that_may_write_runs_main_alone() -> None:
    made = workflow("submitted-answer.yml")
    job = made["jobs"]["answer"]
    assert made["permissions"] == {}
    assert job["permissions"] == {"actions": "read", "contents": "read", "pull-requests": "write"}
    assert job["steps"][0]["with"]["ref"] == "main"


@pytest.mark.parametrize("name", ["submitted.yml", "submitted-answer.yml"])
def test_no_script_holds_words_of_the_request(name: str) -> None:
    """What the request says reaches a script by its environment alone, where it is no code."""
    (job,) = workflow(name)["jobs"].values()
    assert not [step for step in job["steps"] if "${{" in step.get("run", "")]
