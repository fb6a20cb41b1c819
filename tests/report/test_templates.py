"""What all pages hold: markup in files of its own, all text escaped, no value missing; and the script that sorts."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import escape
from packaging.version import Version
from test_page import Page

from suite.analysis.rows.wording import DASH
from suite.report.format.view import Grid
from suite.report.html.document import render, unbroken

pytestmark = pytest.mark.drawing

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "suite" / "report" / "templates"

#: Figures from the least to the greatest, and a column with words and a date, which is no figure.
FIGURES = ["-3", "1.2e-07", f"0.5 (0.4{DASH}0.6)", "26.3", f"1,234 (1,200{DASH}1,300)"]
COLUMN = [DASH, f"{DASH} [1]", "2026-03-01", *FIGURES[::-1], "timeout"]


def index(**changes: object) -> str:
    runs = Grid(["run", "date"], [["x", "<b>"]], ["left", "left"], links={(0, 0): "x/report.html"})
    values = {"title": "t", "counted": "1 run", "runs": runs, "cards": [], "leaderboards": "", "releases": ""}
    return render("index.html.jinja", **(values | changes))


def test_no_python_file_holds_markup() -> None:
    writes_svg = ROOT / "suite" / "report" / "plots" / "vectors.py"
    for path in {*ROOT.glob("suite/**/*.py")} - {writes_svg}:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [
            text for text in texts if re.search(r"</?(a|div|h\d|html|img|li|p|svg|t[dhr]|table)\b[ />]", text)
        ], path


def test_text_is_escaped_without_being_asked_to() -> None:
    hostile = "<img src=x onerror=alert(1)> \"' &"
    runs = Grid(["run"], [["x"]], ["left"], links={(0, 0): f'"><script>{hostile}'})
    text = index(title=hostile, counted=hostile, runs=runs)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in page.tags]
    assert page.said.count("onerror=alert(1)") == 2  # in the title and the line under the heading


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_place() -> None:
    with pytest.raises(UndefinedError, match="is undefined"):
        render("report.html.jinja", title="t")


def test_the_script_sorts_figures_by_value_and_words_after_them() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    stub = """
      const window = {addEventListener() {}}, document = {querySelectorAll: () => []}, location = {hash: ""};
      const show = sign => {
        const rows = COLUMN.map(text => ({cells: [{textContent: text}]}));
        let sorted;
        sort({tBodies: [{rows, append: (...rows) => sorted = rows}]}, 0, sign);
        return sorted.map(row => row.cells[0].textContent);
      };
    """.replace("COLUMN", json.dumps(COLUMN))
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    code = f"{stub}\n{script}\nconsole.log(JSON.stringify([show(1), show(-1)]));"
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True, timeout=30)
    ascending, descending = json.loads(done.stdout)
    assert ascending == [*FIGURES, "2026-03-01", "timeout", DASH, f"{DASH} [1]"]
    assert descending == ["timeout", "2026-03-01", *FIGURES[::-1], DASH, f"{DASH} [1]"], "missing values stay last"


@pytest.mark.slow
def test_a_wheel_holds_the_templates(tmp_path: Path) -> None:
    # It is not imported here: beside a distutils that another test has imported, that fails.
    if not any(Version(each.version) >= Version("77") for each in distributions(name="setuptools")):
        pytest.skip("a wheel is built by setuptools 77 or newer")
    for name in ("suite", "workloads"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "framework_training_suite.py"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", "built"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=120)
    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    prefix = "suite/report/templates/"
    there = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    assert there == {path.name for path in TEMPLATES.iterdir()}


def test_no_line_breaks_within_a_small_number_and_text_stays_escaped() -> None:
    shown = unbroken("<b>differs</b>: update of kernel-2 by 2.5e-06")
    assert '<span class="number">2.5e-06</span>' in shown
    assert "<b>" not in shown
    assert re.sub(r"</?span[^>]*>", "", shown) == escape("<b>differs</b>: update of kernel-2 by 2.5e-06")
