"""All targets have the same functions, say what to install, and are imported only when they are asked for."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from suite.export import __main__ as command
from suite.export import target as targets
from suite.export.contents import LIVE, STORED
from tests import records
from tests.test_imports import loaded

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name, value in vars(targets.Target).items() if inspect.isfunction(value) and name[0] != "_"][:4]


@pytest.mark.parametrize("name", targets.abouts())
def test_the_files_have_the_same_functions_in_the_same_order(name: str) -> None:
    tree = ast.parse((ROOT / "suite" / "export" / "targets" / f"{name}.py").read_text(encoding="utf-8"))
    found = {node.name: ast.unparse(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert [function for function in found if function in FUNCTIONS] == FUNCTIONS
    assert found["add"] in ("session: Session, record: Record", "session: RunFolder, record: Record")
    assert found["begin"] == "place: str, origin: Origin"


def test_nothing_of_a_tracker_is_imported_before_it_is_asked_for() -> None:
    libraries = {about.library for about in targets.abouts().values()}
    every = [f"suite.export.targets.{name}" for name in targets.abouts()]
    assert not loaded("suite.plugin", "suite.export.__main__", "suite.export.live", *every) & libraries


@pytest.mark.parametrize("name", targets.abouts())
def test_a_missing_library_ends_in_one_line_with_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(targets, "find_spec", lambda _: None)
    assert command.main([name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    extra = targets.abouts()[name].extra
    assert f"framework-training-suite[{extra}]" in line
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extra in extras


def test_no_two_metrics_have_one_name() -> None:
    names = [family.series for family in (*LIVE, *STORED)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["mlflow", "nosuch", "--report"]])
def test_wrong_usage_is_one_line(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        command.main(arguments)
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "prometheus"])
def test_a_place_that_is_a_file_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(targets.ExportError, match="is a file; give a folder with --to"):
        targets.abouts()[name].place(str(file))


def test_a_report_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client", reason="needs prometheus_client: tox run -e reach")
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    assert command.main(["prometheus", str(run), "--report", str(tmp_path), "--to", str(tmp_path / "to")]) == 2
    assert "no report.html there; write one with training-suite compare" in capsys.readouterr().err
