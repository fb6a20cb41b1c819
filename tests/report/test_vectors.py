"""SVG for papers: letters are letters, hatches are small tiles that look as they did, and nothing is heavy."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from suite.report import plots
from suite.report.plots.kinds.bars import PARTS
from suite.report.plots.kinds.timeline import SHADE
from suite.report.plots.style import vectors
from suite.report.plots.style.look import HATCH
from tests import records
from tests.records import everything, tables

SVG = "{http://www.w3.org/2000/svg}"
HATCHES = sorted({*HATCH.values(), *(hatch for *_, hatch in PARTS), *(each["hatch"] for each in SHADE.values())} - {""})


def hatched(hatch: str, folder: Path) -> ElementTree.Element:
    """The path in the tile of a bar with this hatch."""
    plot = Figure(figsize=(2, 2))
    plot.add_artist(Rectangle((0, 0), 1, 1, facecolor="#56b4e9", hatch=hatch, edgecolor="#222222"))
    vectors.save(plot, folder / "a.svg")
    (pattern,) = ElementTree.parse(folder / "a.svg").iter(f"{SVG}pattern")
    assert pattern.get("width") == pattern.get("height") == str(vectors.TILE)
    ground, drawn = pattern
    assert ground.get("fill") == "#56b4e9"
    return drawn


@pytest.mark.parametrize("hatch", HATCHES)
def test_every_hatch_is_one_tile_of_less_than_two_kilobytes(hatch: str, tmp_path: Path) -> None:
    drawn = hatched(hatch, tmp_path)
    assert len(ElementTree.tostring(drawn)) < 2000
    assert "#222222" in str(drawn.attrib)
    assert ("round" in str(drawn.attrib)) == ("." in hatch)


def test_hatches_differ_from_each_other(tmp_path: Path) -> None:
    assert len({hatched(hatch, tmp_path).get("d") for hatch in HATCHES}) == len(HATCHES)


def test_lines_of_a_tile_rise_and_fall_as_they_did(tmp_path: Path) -> None:
    def slopes(hatch: str) -> set[bool]:
        ends = re.findall(r"M(\S+) (\S+)L(\S+) (-?\d+)", hatched(hatch, tmp_path).get("d", ""))
        return {float(last) < float(first) for _, first, _, last in ends}

    assert slopes("////") == {True}
    assert slopes("\\\\\\\\") == {False}
    assert slopes("xxxx") == {True, False}


def test_a_tile_meets_the_next_one_without_a_step(tmp_path: Path) -> None:
    for hatch in HATCHES:
        if "." not in hatch:
            starts = [float(x) for x in re.findall(r"M(\S+) ", hatched(hatch, tmp_path).get("d", ""))]
            gaps = {round(b - a, 6) for a, b in pairwise(starts) if b > a}
            assert len(gaps) == 1
            assert vectors.TILE % gaps.pop() == 0


def test_plots_are_light_and_their_letters_are_text_of_a_family_that_others_can_stand_in_for(tmp_path: Path) -> None:
    drawn = plots.draw(tables(everything()), tmp_path, ["svg"])
    assert len(drawn) == len(plots.KINDS)
    for path in drawn:
        text = path.read_text()
        root = ElementTree.fromstring(text)
        words = [each.text or "" for each in root.iter(f"{SVG}text")]
        assert any("CIFAR-100 CNN" in each for each in words), path.name
        assert "".join(words).strip()
        assert root.get("font-family") == vectors.FAMILIES
        assert text.count("DejaVu") == 1, "no text names a family of its own"
        assert len(text) < 90_000, path.name
        assert not re.search(r"\d\.\d{3,}", re.sub(r"<text.*?</text>|stroke-[a-z]+:[^;\"]*", "", text)), path.name
        assert not re.search(r"<metadata|<!--|dc:date|matplotlib", text)


def test_letters_stay_where_they_were(tmp_path: Path) -> None:
    plot = plots.throughput(tables(records.launches(n=2))[0])
    vectors.save(plot, tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    places = {text.text: (text.get("x"), text.get("y"), text.get("style")) for text in root.iter(f"{SVG}text")}
    x, y, style = places["Training throughput of the CIFAR-100 CNN, by framework"]
    assert (x, y) == ("14.4", "25.92")
    assert "font-weight:700" in str(style)
    assert "font-size:12px" in str(style)
