"""``--matrix sweep.toml``: the same as the options, and as strict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import AUTO, Cell
from suite.plan.matrix import MatrixError, check_size, matrix
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import parse_values, swept, usual


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "sweep.toml") -> str:
    Path(name).write_text(text)
    return name


def test_a_file_says_the_same_as_the_options() -> None:
    text = 'workload = "imdb_lstm"\nframework = ["jax", "pytorch"]\nbatch = [32, "auto"]\nloader = ["tuned", "w2"]\n'
    found = union_of_names([written(text, "mine.toml")], gpu=False)
    options = {"workload": "imdb_lstm", "framework": "jax,pytorch", "batch": "32,auto", "loader": "tuned,w2"}
    assert (
        found.cells == swept(usual(gpu=False), {axis: parse_values(axis, text) for axis, text in options.items()}).cells
    )
    assert {cell.batch for cell in found.cells} == {32, AUTO}
    assert found.name == "mine"


def test_a_byte_order_mark_is_read_over() -> None:
    """Editors of Windows write one; Python itself reads over that of a matrix in a Python file."""
    Path("sweep.toml").write_bytes(b"\xef\xbb\xbfbatch = [32, 64]\n")
    assert {cell.batch for cell in union_of_names(["sweep.toml"], gpu=False).cells} == {32, 64}
    code = 'from suite.plan.cell import Cell\ndef mine(): return [Cell("imdb_lstm", "jax", batch=7)]\n'
    Path("mine.py").write_bytes(b"\xef\xbb\xbf" + code.encode())
    assert [cell.batch for cell in matrix("mine.py:mine").cells] == [7]


def test_a_file_may_say_launches_windows_and_a_name() -> None:
    found = union_of_names(
        [written('launches = 6\nmin-window = 2\nname = "two-seconds"\nprecision = "bf16"')], gpu=True
    )
    assert (found.launches, found.plan.min_window_s, found.name) == (6, 2.0, "two-seconds")
    assert {cell.precision for cell in found.cells} == {"bf16"}


@pytest.mark.parametrize(
    ("file", "name"), [("my sweep.toml", "my-sweep"), (" a, (b).toml", "a-b"), ("???.toml", "sweep")]
)
def test_a_file_without_a_name_is_called_as_the_file_is_in_characters_of_a_name(file: str, name: str) -> None:
    assert union_of_names([written("batch = 7", file)], gpu=False).name == name
    assert len(union_of_names([written("batch = 7", f"{'x' * 150}.toml")], gpu=False).name) == 100


def test_a_file_may_name_matrices_to_start_from() -> None:
    found = union_of_names([written('matrix = ["precision", "batch"]\nframework = "jax"')], gpu=False)
    assert set(found.cells) == {
        cell for name in ("precision", "batch") for cell in matrix(name).cells if cell.framework == "jax"
    }


def test_a_file_goes_with_other_matrices() -> None:
    both = union_of_names([f"{written('batch = 7')},smoke"], gpu=False)
    assert both.name == "sweep+smoke"
    assert Cell("imdb_lstm", "jax", batch=7) in both.cells
    assert set(matrix("smoke").cells) <= set(both.cells)


@pytest.mark.parametrize(("text", "words"), [
    ('presicion = "bf16"', "unknown key 'presicion'; did you mean 'precision'? There are: workload, framework"),
    ("min_window = 1", "unknown key 'min_window'; did you mean 'min-window'?"),
    ('framework = "pytroch"', "framework: unknown framework 'pytroch'; did you mean 'pytorch'?"),
    ('loader = ["tunned"]', "unknown loader 'tunned'; did you mean 'tuned'?"),
    ('matrix = "bath"', "unknown matrix 'bath'; did you mean 'batch'?"),
    ('matrix = "other.toml"', "matrix names 'other.toml'; a TOML file can name no other one"),
    ("precision = 16", "precision is 16; write text in quotes"),
    ("batch = []", "batch is an empty list"),
    ("batch = [1.5]", "batch is 1.5; write text in quotes"),
    ("batch = true", "batch is True; write text in quotes"),
    ("batch = 0", "batch is '0'; write a number of samples, or auto"),
    ("launches = 0", "launches is 0; it must be a whole number of at least 1"),
    ('launches = "6"', "launches is '6'; it must be a whole number"),
    ("min-window = nan", "min-window is nan; it must be more than 0 seconds"),
    ("min-window = 0", "min-window is 0; it must be more than 0 seconds and less than 86400"),
    ("min-window = 86400", "min-window is 86400; it must be more than 0 seconds and less than 86400"),
    ("min-window = true", "min-window is True; it must be a number of seconds"),
    ('name = "a/b"', "name is 'a/b'; use letters, digits and"),
    ("batch = ", "is not valid TOML: "),
])  # fmt: skip
def test_a_mistake_in_a_file_is_one_line_that_names_file_and_key(text: str, words: str) -> None:
    with pytest.raises(MatrixError) as caught:
        union_of_names([written(text)], gpu=False)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("sweep.toml")
    assert words in line


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(MatrixError, match=r"no file 'nowhere\.toml' for --matrix"):
        union_of_names(["nowhere.toml"], gpu=False)
    Path("folder.toml").mkdir()
    with pytest.raises(MatrixError, match=r"no file 'folder\.toml' for --matrix"):
        union_of_names(["folder.toml"], gpu=False)


@pytest.mark.parametrize(("text", "words"), [
    (f"batch = {2000 * '['}{2000 * ']'}", "has brackets within brackets too deep to read"),
    (f"batch = {list(range(1, 1001))}\naccumulate = {list(range(1, 1001))}", "a run has at most 10,000"),
    (f"name = '{'x' * (1 << 20)}'", "it has more than 1048576 bytes"),
])  # fmt: skip
def test_a_file_that_grows_without_end_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(MatrixError) as caught:
        union_of_names([written(text)], gpu=False)
    (line,) = str(caught.value).splitlines()
    assert words in line
    assert len(line) < 200


@pytest.mark.parametrize("launches", [10**9, 1000, 0, -5, True, 2.0])
def test_launches_that_no_run_can_have_are_refused(launches: Any) -> None:
    """From 1000 on, numbers of launches are those of the control."""
    with pytest.raises(MatrixError, match=r"it must be a whole number from 1 to 999"):
        check_size(6, launches)
    with pytest.raises(MatrixError, match=r"999 launches of 1,000 cells are more than the 100,000 of a run"):
        check_size(1000, 999)
