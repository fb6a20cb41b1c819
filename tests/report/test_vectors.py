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
from suite.report.plots.kinds import TIMED, find_kinds
from suite.report.plots.kinds.bars import PARTS, throughput
from suite.report.plots.kinds.timeline import SHADE
from suite.report.plots.style import vectors
from suite.report.plots.style.look import HATCH
from tests import records
from tests.records import complete, tables

SVG = "{http://www.w3.org/2000/svg}"
HATCHES = sorted({*HATCH.values(), *(hatch for *_, hatch in PARTS), *(each["hatch"] for each in SHADE.values())} - {""})


def hatched(hatch: str) -> ElementTree.Element:
    """The path in the tile of a bar with this hatch."""
    plot = Figure(figsize=(2, 2))
    plot.add_artist(Rectangle((0, 0), 1, 1, facecolor="#56b4e9", hatch=hatch, edgecolor="#222222"))
    (pattern,) = ElementTree.fromstring(vectors.draw_svg(plot)).iter(f"{SVG}pattern")
    assert pattern.get("width") == pattern.get("height") == str(vectors.TILE)
    ground, drawn = pattern
    assert ground.get("fill") == "#56b4e9"
    return drawn


@pytest.mark.parametrize("hatch", HATCHES)
def test_every_hatch_is_one_tile_of_less_than_two_kilobytes(hatch: str) -> None:
    drawn = hatched(hatch)
    assert len(ElementTree.tostring(drawn)) < 2000
    assert "#222222" in str(drawn.attrib)
    assert ("round" in str(drawn.attrib)) == ("." in hatch)


def test_hatches_differ_from_each_other() -> None:
    assert len({hatched(hatch).get("d") for hatch in HATCHES}) == len(HATCHES)


def test_lines_of_a_tile_rise_and_fall_as_they_did() -> None:
    def slopes(hatch: str) -> set[bool]:
        ends = re.findall(r"M(\S+) (\S+)L(\S+) (-?\d+)", hatched(hatch).get("d", ""))
        return {float(last) < float(first) for _, first, _, last in ends}

    assert slopes("////") == {True}
    assert slopes("\\\\\\\\") == {False}
    assert slopes("xxxx") == {True, False}


def test_a_tile_meets_the_next_one_without_a_step() -> None:
    for hatch in HATCHES:
        if "." not in hatch:
            starts = [float(x) for x in re.findall(r"M(\S+) ", hatched(hatch).get("d", ""))]
            gaps = {round(b - a, 6) for a, b in pairwise(starts) if b > a}
            assert len(gaps) == 1
            assert vectors.TILE % gaps.pop() == 0


def test_plots_are_light_and_their_letters_are_text_of_a_family_that_others_can_stand_in_for(tmp_path: Path) -> None:
    drawn = plots.draw(tables(complete()), [], tmp_path, [])
    assert len(drawn) == 1 + len(find_kinds(TIMED))
    for each in drawn:
        root = ElementTree.fromstring(each.svg)
        words = [text.text or "" for text in root.iter(f"{SVG}text")]
        assert "CIFAR-100 CNN" in " ".join(words), each.name
        assert root.get("font-family") == vectors.FAMILIES
        assert each.svg.count("DejaVu") == 1, "no text names a family of its own"
        assert len(each.svg) < 90_000, each.name
        shapes = re.sub(r"<text.*?</text>|<title>.*?</title>|stroke-[a-z]+:[^;\"]*", "", each.svg)
        assert not re.search(r"\d\.\d{3,}", shapes), each.name
        assert not re.search(r"<metadata|<!--|dc:date|matplotlib", each.svg)


def test_letters_stay_where_they_were() -> None:
    with plots.use_style():
        root = ElementTree.fromstring(vectors.draw_svg(throughput(tables(records.launches(n=2))[0])))
    places = {text.text: (text.get("x"), text.get("y"), text.get("style")) for text in root.iter(f"{SVG}text")}
    x, y, style = places["Training throughput of the CIFAR-100 CNN, by framework"]
    assert (x, y) == ("14.4", "25.92")
    assert "font-weight:700" in str(style)
    assert "font-size:12px" in str(style)


def test_each_mark_has_its_text_and_a_line_one_text() -> None:
    axes = (plot := Figure(figsize=(2, 2))).add_axes((0, 0, 1, 1))
    vectors.point_out(axes.plot([1, 2, 3], [1, 2, 3], "o")[0], ["one", "two", "<three>"])
    vectors.point_out(axes.plot([1, 2], [1, 2], "o", fillstyle="left")[0], ["left", "right"])
    vectors.point_out(axes.plot([1, 2], [2, 1])[0], ["falls"])
    vectors.point_out(axes.bar([1, 2], [1, 2]), ["first", "second"])
    root = ElementTree.fromstring(vectors.draw_svg(plot))
    titles = {
        title.text: parent.tag.removeprefix(SVG) for parent in root.iter() for title in parent.findall(f"{SVG}title")
    }
    assert {"one", "two", "<three>", "left", "right", "falls", "first", "second"} == titles.keys()
    assert {titles[name] for name in ("one", "<three>", "left")} == {"use"}
    assert [len([each for each in root.iter(f"{SVG}title") if each.text == name]) for name in ("one", "left")] == [1, 2]


def test_a_picture_in_a_page_has_the_page_s_colours_no_style_and_ids_of_its_own() -> None:
    with plots.use_style():
        svg = vectors.draw_svg(throughput(tables(records.launches(n=2))[0]))
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
        assert len(text) < len(svg)


def test_lines_in_a_page_go_from_point_to_point() -> None:
    axes = (plot := Figure(figsize=(2, 2))).add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.plot([0, 1, 2], [0, 3, 1])
    axes.set(xlim=(0, 2), ylim=(0, 4))
    (before,) = re.findall(r'd="(M0 144L72 36L144 108)"', vectors.draw_svg(plot))
    assert before
    assert 'd="M0 144l72-108 72 72"' in vectors.embed(vectors.draw_svg(plot), 0, "")


def test_pictures_of_a_page_share_the_classes_of_their_looks() -> None:
    with plots.use_style():
        svg = vectors.draw_svg(throughput(tables(records.launches(n=2))[0]))
    looks: dict[str, str] = {}
    first, second = (vectors.embed(svg, number, "bars", looks) for number in (0, 1))
    assert re.findall(r'class="(l\d+)"', first) == re.findall(r'class="(l\d+)"', second)
    assert {*re.findall(r'class="(l\d+)"', first)} == {*looks.values()}
    assert len(first) < 0.9 * len(vectors.embed(svg, 0, "bars"))
    style = vectors.style_of(looks)
    assert ".l0{" in style
    assert "url(" not in style
    assert style.count("{") == style.count("}") == len(looks)


def test_the_darkest_lines_have_the_colour_of_the_page_s_ink() -> None:
    with plots.use_style():
        svg = vectors.embed(vectors.draw_svg(throughput(tables(records.launches(n=2))[0])), 0, "")
    assert max(map(int, re.findall(r"var\(--ink\) (\d+)%", svg)), default=0) < 100, "a browser ignores more than 100 %"


def test_only_lines_that_leave_their_frame_are_cut() -> None:
    axes = (plot := Figure(figsize=(2, 2))).add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.plot([0, 1], [1, 2], gid="inside")
    axes.plot([0, 9], [1, 2], gid="outside")
    axes.set(xlim=(0, 2), ylim=(0, 4))
    assert vectors.draw_svg(plot).count('clip-path="') == 2
    assert vectors.embed(vectors.draw_svg(plot), 0, "").count('clip-path="') == 1
