"""Report and index in a real browser: nothing is refused, nothing overflows, the answer is on the first screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.report import plots
from tests import browser, records
from tests.browser import Browser
from tests.published import RUNS

pytestmark = pytest.mark.drawing

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "tests" / "golden" / "runs" / "settings.jsonl"
ACCURACY = RUNS["0006_accuracy_imdb"]

PAGES = ("index.html", "0001_cpu/report.html", "settings/report.html", "0006_accuracy_imdb/report.html")


@dataclass(frozen=True)
class Site:
    folder: Path
    tab: Browser

    def page(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    command = browser.found()
    if command is None:
        pytest.skip("no headless browser is installed: apt-get install chromium")
    folder = tmp_path_factory.mktemp("site")
    run = records.save(folder / "runs" / "0001_cpu.json", records.launches(n=6))
    draw = plots.draw
    with pytest.MonkeyPatch.context() as patch:  # pages hold their plots, and need no files of them
        patch.setattr(plots, "draw", lambda timed, trained, place, *_: draw(timed, trained, place, []))
        for each in (run, SETTINGS, ACCURACY):
            assert main([str(each), "--publish", str(folder)]) == 0
    with browser.started(command, tmp_path_factory.mktemp("profile")) as tab:
        yield Site(folder, tab)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)], ids=["light", "dark"])
def test_a_page_fits_the_screen_can_be_read_and_has_its_answer_on_top(
    site: Site, name: str, width: int, dark: bool
) -> None:
    site.tab.open(site.page(name), width, 900, dark=dark)
    assert site.tab.complaints == []
    assert site.tab.run("document.documentElement.scrollWidth") <= width
    if width == 1400:
        answer = ".card .verdict" if name == "index.html" else "#answer"
        assert 0 < site.tab.run(f"document.querySelector('{answer}').getBoundingClientRect().bottom") < 900
        assert site.tab.run("document.documentElement.scrollHeight") <= 3500
    # A box that scrolls may hold a wide table on a phone; on a desk the columns that decide fit.
    if width == 1400 and name != "index.html":
        wide = "[...document.querySelectorAll('section .wide')].map(box => box.scrollWidth - box.clientWidth)"
        assert max(site.tab.run(wide)) <= 0
    assert site.tab.run(CONTRAST) == []
    paper = site.tab.run("getComputedStyle(document.documentElement).backgroundColor")
    assert (max(map(int, paper[4:-1].split(","))) < 60) == dark


@pytest.mark.parametrize("scripts", [True, False])
def test_plots_need_no_script_and_the_filter_is_shown_only_with_one(site: Site, scripts: bool) -> None:
    site.tab.open(site.page(PAGES[1]), scripts=scripts)
    assert site.tab.run("document.querySelector('main .plot').getBoundingClientRect().width") > 250
    assert site.tab.run("document.querySelector('input[type=search]').checkVisibility()") == scripts


@pytest.mark.parametrize(("name", "words"), [(PAGES[1], "launch "), (PAGES[3], "seed ")])
def test_the_marks_of_a_plot_can_be_pointed_at(site: Site, name: str, words: str) -> None:
    site.tab.open(site.page(name))
    found = site.tab.run(
        "[...document.querySelectorAll('#hero .plot title')].map(title => {"
        " const {x, y, width, height} = title.parentNode.getBoundingClientRect();"
        " const hit = document.elementFromPoint(x + width / 2, y + height / 2);"
        " const over = title.parentNode.contains(hit) || hit?.querySelector(':scope > title') !== null;"
        " return [title.textContent, over]; })"
    )
    assert any(words in text for text, _ in found)
    assert all(hit for text, hit in found if words in text and "in the end" not in text)


def test_a_click_on_a_header_sorts_and_missing_values_stay_last(site: Site) -> None:
    site.tab.open(site.page("settings/report.html"))
    column = "[...document.querySelectorAll('#table0 th')].findIndex(head => head.textContent === 'samples/s')"
    at = site.tab.run(column)
    read = f"[...document.querySelector('#table0').tBodies[0].rows].map(row => row.cells[{at}].textContent.trim())"
    for sign, state in ((1, "ascending"), (-1, "descending")):
        site.tab.run(f"document.querySelectorAll('#table0 thead button')[{at}].click()")
        assert site.tab.run(f"document.querySelectorAll('#table0 thead th')[{at}].ariaSort") == state
        shown = site.tab.run(read)
        missing = [text.startswith("\u2013") for text in shown]
        assert any(missing)
        assert missing == sorted(missing), "those without a value are at the end"
        figures = [sign * float(text.split()[0].replace(",", "")) for text in shown if not text.startswith("\u2013")]
        assert figures == sorted(figures)


def test_the_switch_shows_all_columns_without_a_script_and_header_rows_stick(site: Site) -> None:
    count = "[...document.querySelectorAll('#table0 thead th')].filter(head => head.checkVisibility()).length"
    for scripts in (True, False):
        site.tab.open(site.page("settings/report.html"), scripts=scripts)
        before = site.tab.run(count)
        site.tab.run("document.querySelector('.all').checked = true")
        assert site.tab.run(count) == site.tab.run("document.querySelectorAll('#table0 thead th').length") > before
    site.tab.open(site.page("settings/report.html"), height=400)
    top = "document.querySelector('#table0 thead th').getBoundingClientRect().top"
    box = "document.querySelector('#table0').parentNode"
    before = site.tab.run(top)
    site.tab.run(f"{box}.scrollTop = 200")
    assert site.tab.run(f"{box}.scrollTop") > 20, "the table is longer than its box"
    assert site.tab.run(top) == before


def test_a_link_to_a_folded_part_unfolds_it(site: Site) -> None:
    site.tab.open(f"{site.page(PAGES[1]).as_uri()}#every-launch")
    assert site.tab.run("document.querySelector('#launches').checkVisibility()")


CONTRAST = """(() => {
  const channels = text => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > .99) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  document.querySelectorAll('details').forEach(fold => fold.open = true);
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || ['SCRIPT', 'title'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = light(channels(element.tagName === 'text' ? style.fill : style.color)), paper = light(behind(element));
    const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    const name = element.className.baseVal ?? element.className;
    if (ratio < 4.5) poor.push(`${element.tagName}.${name}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()"""
