"""SVG for papers and pages: letters are letters, hatches are small tiles as they were, and nothing is heavy."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from suite.catalog.frameworks import FRAMEWORKS
from suite.report import plots
from suite.report.plots import layout, vectors
from suite.report.plots.kinds.bars import throughput
from suite.report.plots.kinds.shares import LOOKS, PARTS
from suite.report.plots.kinds.timeline import SHADED
from tests import records
from tests.records import tables

SVG = "{http://www.w3.org/2000/svg}"
HATCHES = sorted(
    {
        *(each.hatch for each in (*FRAMEWORKS.values(), *SHADED)),
        *(hatch for *_, hatch in (*PARTS, *LOOKS.values())),
        "\\\\\\\\",
    }
    - {""}
)


def hatched(hatch: str) -> ElementTree.Element:
    """The path in the tile of a bar with this hatch."""
    plot = Figure(figsize=(2, 2))
    plot.add_artist(Rectangle((0, 0), 1, 1, facecolor="#56b4e9", hatch=hatch, edgecolor="#222222"))
    (pattern,) = ElementTree.fromstring(vectors.draw_svg(plot)).iter(f"{SVG}pattern")
    ground, drawn = pattern
    assert ground.get("fill") == "#56b4e9"
    assert len(ElementTree.tostring(pattern)) < 500
    return drawn


@pytest.fixture(scope="module")
def svg() -> str:
    with plots.use_style():
        return vectors.draw_svg(layout.draw(throughput(tables(records.launches(n=2))[0])))


def test_hatches_are_small_tiles_that_differ_and_meet_the_next_without_a_step() -> None:
    ways = {hatch: hatched(hatch).get("d", "") for hatch in HATCHES}
    assert len({*ways.values()}) == len(HATCHES)
    for hatch, way in ways.items():
        wide = vectors.HATCH / len(hatch)
        for x, y, x_end, y_end in (map(float, ends) for ends in re.findall(r"M(\S+) (\S+)L(\S+) (-?[\d.]+)", way)):
            across = x + y if y_end < y else x - y
            assert across % wide == pytest.approx(0), "a line ends where that of the next tile begins"
            assert abs(x_end - x) == pytest.approx(abs(y_end - y))


def test_plots_are_light_and_their_letters_are_text_of_a_family_that_others_can_stand_in_for(tmp_path: Path) -> None:
    drawn = plots.draw(tables(records.mixed()), [], tmp_path, [])
    assert len(drawn) == 8
    for each in drawn:
        root = ElementTree.fromstring(each.svg)
        words = [text.text or "" for text in root.iter(f"{SVG}text")]
        assert "CIFAR-100 CNN" in " ".join(words), each.name
        assert root.get("font-family") == vectors.FAMILIES
        assert each.svg.count("DejaVu") == 1, "no text names a family of its own"
        assert len(each.svg) < 60_000, each.name
        shapes = re.sub(r"<text.*?</text>|<title>.*?</title>", "", each.svg)
        assert not re.search(r"\d\.\d{3,}", shapes), each.name
        assert not re.search(r"<metadata|<!--|style=|matplotlib", each.svg)


def test_each_mark_has_its_text_and_a_line_one_text() -> None:
    axes = (plot := Figure(figsize=(2, 2))).add_axes((0, 0, 1, 1))
    vectors.point_out(axes.plot([1, 2, 3], [1, 2, 3], "o")[0], ["one", "two", "<three>"])
    vectors.point_out(axes.plot([1, 2], [1, 2], "o", fillstyle="left")[0], ["left", "right"])
    vectors.point_out(axes.plot([1, 2], [2, 1])[0], ["falls"])
    vectors.point_out(axes.bar([1, 2], [1, 2]), ["first", "second"])
    root = ElementTree.fromstring(vectors.draw_svg(plot))
    titles = [
        (title.text, parent.tag.removeprefix(SVG)) for parent in root.iter() for title in parent.findall(f"{SVG}title")
    ]
    assert {"one", "two", "<three>", "left", "right", "falls", "first", "second"} == {text for text, _ in titles}
    assert {tag for text, tag in titles if text in ("one", "<three>", "left")} == {"use"}
    assert [text for text, _ in titles].count("left") == 2, "a mark in two halves has it twice"


def test_only_what_lies_within_the_axes_is_drawn() -> None:
    axes = (plot := Figure(figsize=(2, 2))).add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.plot([0, 1, 2], [0, 3, 1])
    axes.plot([0, 400], [1, 201], "o-")
    axes.set(xlim=(0, 2), ylim=(0, 4))
    text = vectors.draw_svg(plot)
    assert 'd="M0 144l72 -108l72 72"' in text
    assert text.count("<use") == 1
    assert max(float(x) for x in re.findall(r"[Ml](-?[\d.]+)", text)) < 150


def test_a_picture_in_a_page_has_the_page_s_colours_no_style_and_ids_of_its_own(svg: str) -> None:
    pictures = [vectors.embed(svg, number, 'a "bar" & a dot') for number in (0, 1)]
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in pictures]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip(pictures, ids, strict=True):
        root = ElementTree.fromstring(text)
        assert root.get("aria-label") == 'a "bar" & a dot'
        assert not [each for each in root.iter() if each.tag == "style" or "style" in each.attrib]
        assert set(re.findall(r'(?:href="|url\()#([\w-]+)', text)) <= own
        assert "var(--ink)" in text
        assert "var(--paper)" in text
        outside = re.sub(r"<pattern.*?</pattern>", "", text, flags=re.DOTALL)  # whose ground is a bar's own colour
        assert not re.search(r"#2{6}|#f{6}|#595959", outside), "no colour stays that a dark page would hide"
        assert max(map(int, re.findall(r"var\(--ink\) (\d+)%", text)), default=0) < 100, "browsers ignore more"
