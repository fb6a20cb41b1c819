"""``training-suite list`` and ``plot``: every stored run has its line, and a plot is drawn by its name."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

from suite.compare.__main__ import main as compare
from suite.list.__main__ import main as list_runs
from suite.plot.__main__ import main as plot
from suite.record.saved import pack
from suite.report.plots import use_style
from tests import records


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs and a file that is none."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "stored"
    folder.mkdir()
    records.save(folder / "0001_a.json", records.launches(n=2))
    records.save(folder / "0002_b.json", records.launches(["jax"], n=3))
    return folder


def test_each_run_has_its_line(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_runs(["--storage", str(storage), "--json"]) == 0
    listed = {line["run"]: line for line in json.loads(capsys.readouterr().out)}
    assert {name: (line["launches"], line["workloads"]) for name, line in listed.items()} == {
        "0001_a": (6, ["cifar100_cnn"]), "0002_b": (3, ["cifar100_cnn"]),
    }  # fmt: skip
    first = records.launches()[0]
    assert all(line["date"] == first.started and line["machine"] for line in listed.values())
    assert list_runs(["--storage", str(storage)]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(listed)
    assert [line.split()[-1] for line in lines] == ["6", "3"]
    assert len({line.index(line.split()[1]) for line in lines}) == 1


def test_what_cannot_be_read_hides_no_other_run(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (storage / "0003_cut.json").write_text('{"benchmarks": [')
    assert list_runs(["--storage", str(storage), "--json"]) == 1
    told, error = capsys.readouterr()
    assert [line["run"] for line in json.loads(told)] == ["0001_a", "0002_b"]
    assert len(error.splitlines()) == 1
    assert "0003_cut.json" in error


def test_without_a_run_the_line_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_runs(["--storage", str(tmp_path / "none")]) == 2
    assert "training-suite run" in capsys.readouterr().err


def test_a_plot_is_drawn_by_its_name(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--storage", str(storage), "1"]
    assert plot(options) == 0
    kinds = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "throughput" in kinds
    assert plot([*options, "throughput"]) == 0
    assert capsys.readouterr().out == "throughput.png\n"
    with Image.open("throughput.png") as drawn:
        assert drawn.format == "PNG"
    assert plot([*options, "throughput", "--output", "a.svg"]) == 0
    assert Path("a.svg").read_text().startswith(("<svg", "<?xml"))


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_a_plot_replaces_a_plot_and_nothing_else(name: str, storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--storage", str(storage), "1", "throughput", "--output", name]
    assert plot(options) == plot(options) == 0
    Path(name).write_bytes(b"a figure of somebody else's")
    assert plot(options) == 2
    assert Path(name).read_bytes() == b"a figure of somebody else's"
    assert name in capsys.readouterr().err


def test_no_style_lets_tex_run_what_a_run_is_called(storage: Path) -> None:
    style = storage / "a.mplstyle"
    style.write_text("text.usetex: True\ntext.parse_math: True\nfont.size: 3\n")
    with use_style(style):
        assert [mpl.rcParams[name] for name in ("text.usetex", "text.parse_math", "font.size")] == [False, False, 3]


@pytest.mark.parametrize("content", [None, b"font.size: \xff"])
def test_a_style_that_is_none_is_one_line(
    content: bytes | None, storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    style = storage / "https:" / "a.mplstyle"
    if content is not None:
        style.parent.mkdir()
        style.write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        plot(["--storage", str(storage), "1", "throughput", "--style", str(style)])
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("words", "meant"), [
    (["throughptu"], "throughput"), (["throughput", "--output", "a.docx"], ".svg"), (["hero", "--output", "a"], ".png"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_one_line(
    words: list[str], meant: str, storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot(["--storage", str(storage), "1", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert meant in line


@pytest.mark.usefixtures("undrawn")
def test_the_settings_of_a_run_are_listed_and_named_where_another_run_lacks_them(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = [*records.launches(n=1), *records.launches(n=1, precision="bf16"), *records.launches(["jax"], n=1, batch=64)]
    (storage / "0003_both.json").write_text(json.dumps(pack(records.saved(held))))
    assert list_runs(["--storage", str(storage), "--json"]) == 0
    settings = {line["run"]: line["settings"] for line in json.loads(capsys.readouterr().out)}
    assert settings["0001_a"] == {"size": ["full"], "precision": ["fp32"], "batch": ["32"]}
    assert settings["0003_both"] == {"size": ["full"], "precision": ["fp32", "bf16"], "batch": ["32", "64"]}
    asked = ["0001_a", "--by", "precision", "--format", "json", "--storage", str(storage), "--output"]
    assert compare([*asked, str(storage / "out")]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert [note for note in notes if "0003_both (fp32, bf16)" in note]
    assert compare(["0003_both", *asked[1:], str(storage / "third")]) == 0
    assert not [note for note in json.loads(capsys.readouterr().out)["notes"] if "0003" in note]
