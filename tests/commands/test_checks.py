"""`training-suite checks`: each check is there, and asks the frameworks' interpreters for what is there."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from suite.checks import __main__ as command
from suite.checks import loaders, plain
from suite.session.launches.launch import LaunchError


@pytest.mark.parametrize(("words", "said"), [
    (["plian"], "training-suite checks: unknown check 'plian'; did you mean 'plain'? "),
    (["plain", "--batch", "32,x"], "training-suite checks plain: argument --batch: '32,x' does not fit N[,N]"),
])  # fmt: skip
def test_what_is_mistyped_is_refused_in_one_line(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["checks", *words])
    try:
        status: object = command.main()
    except SystemExit as end:
        status = end.code
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)


@pytest.mark.parametrize("check", [plain, loaders])
def test_a_framework_is_asked_by_a_module_that_answers(
    check: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def ask(framework: str, module: str, arguments: list[str], workload: str = "") -> Any:
        asked.append(module)
        return {"ratios": [1.0, 1.0], "step_s": 0.1, "harness": 0.0} if check is plain else []

    monkeypatch.setattr(check, "ask", ask)
    monkeypatch.setattr(sys, "argv", ["checks", "--framework", "jax"])
    if check is loaders:
        monkeypatch.setattr(check, "prepare", lambda *_: tmp_path)
        monkeypatch.setattr(check, "open_cached", lambda _: argparse.Namespace(kind="synthetic"))
    run: Callable[[], int] = check.main
    assert run() == 0
    assert "imdb_lstm" in capsys.readouterr().out or check is loaders
    for module in asked:
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert '__name__ == "__main__"' in Path(spec.origin).read_text()


def test_only_a_workload_that_decodes_is_decoded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["checks", "--task", "decode"])
    assert plain.main() == 2
    assert "add --workload gpt_small" in capsys.readouterr().err


def test_a_process_counts_once_and_a_failed_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([[0.9, 1.0, 1.1], [1.1, 1.1, 9.0], None, [1.0], [1.0], [1.0]])

    def ask(framework: str, module: str, arguments: list[str], workload: str = "") -> Any:
        ratios = next(answers)
        if ratios is None:
            raise LaunchError("it crashed")
        return {"ratios": ratios, "step_s": 0.1, "harness": 0.0}

    monkeypatch.setattr(plain, "ask", ask)
    where = ["--workload", "imdb_lstm", "--framework", "jax", "--batch", "32,64", "--processes", "3"]
    monkeypatch.setattr(sys, "argv", ["checks", *where, "--save", str(tmp_path / "all.json")])
    assert plain.main() == 1, "one process failed"
    *_, first, second, _ = capsys.readouterr().out.splitlines()
    # Batch 32 had the first, the third (which failed) and the fifth answer.
    assert first.split()[2:6] == ["32", "1.000", "1.000-1.000", "2"]
    assert first.endswith("it crashed")
    assert second.split()[2:6] == ["64", "1.032", "0.900-1.183", "3"]
    saved = json.loads((tmp_path / "all.json").read_text())
    assert [len(each["answers"]) for each in saved] == [2, 3], "every ratio is kept"
