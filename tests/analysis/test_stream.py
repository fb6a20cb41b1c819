"""Files are taken in value by value, wherever the pieces happen to end, and what is not needed does not stay."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records import stream
from suite.analysis.records.load import LoadError, load
from suite.analysis.records.stream import Text, parse
from suite.record.line import POINTS
from tests import records
from tests.records import replace

VALUES: list[Any] = [
    {}, [], [[]], {"a": [1, 2.5, -3e2, "x\\\"]}", None, True]}, "text", 12345, 1.25, -7, [{"b": {"c": []}}],
    "\u00e9\U0001f600",
]  # fmt: skip


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_a_value_is_the_same_wherever_a_piece_ends(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    for indent in (None, 4):
        text = Text(io.StringIO(f" {json.dumps({str(n): value for n, value in enumerate(VALUES)}, indent=indent)}\n"))
        assert [text.value() for _ in text.names()] == VALUES
        text.end()
        text = Text(io.StringIO(json.dumps(VALUES, indent=indent)))
        assert list(text.items()) == VALUES
        text.end()


BROKEN = ["", "{", '{"a"', '{"a": ', '{"a": 1', '{"a": 1,', '{"a": 1}x', "{1: 2}", '{"a" 1}', '{"a": tru}',
          '{"a": 1 2}', '{"a": "', '{"a": [1, 2}', '{"a": -}', "[1]", '{"a": 1.}', '{"a": "\\u12"}']  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("piece", [1, 1000])
def test_what_is_no_json_is_refused(broken: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)

    def take() -> None:
        text = Text(io.StringIO(broken))
        for _ in text.names():
            text.value()
        text.end()

    with pytest.raises(ValueError, match=r"char \d+"):
        take()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 30])
def test_numbers_that_no_measurement_gives_are_refused(number: str) -> None:
    with pytest.raises(ValueError, match=r"the number .* is (not finite|too large)"):
        parse(f"[{number}]")
    with pytest.raises(ValueError, match=r"the number .* is (not finite|too large)"):
        list(Text(io.StringIO(f"[{number}]")).items())


@pytest.mark.parametrize("piece", [1, 100])
def test_a_saved_run_loads_whatever_the_pieces(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = records.save(tmp_path / "a.json", records.launches(n=1))
    whole = load([path])
    monkeypatch.setattr(stream, "PIECE", piece)
    assert load([path]) == whole


def timed(points: int, name: str = "power_w", **changes: Any) -> dict[str, Any]:
    """A source of metrics: one line and one median that are shown."""
    values = {name: [float(i) for i in range(points)]}
    gpu = {"name": "Example GPU", "phases": {"train": {name: {"median": 300.0}}}}
    return gpu | {"timeline": {"at_s": [0.1 * i for i in range(points)], "values": values} | changes}


@pytest.mark.parametrize("points", [600, 601])
def test_lines_over_time_are_thinned_and_what_is_shown_stays(points: int, tmp_path: Path) -> None:
    metrics = {"host": timed(30, "cpu_cores"), "gpus": [timed(points), timed(points)]}
    path = records.journal(tmp_path / "a.jsonl", [replace(records.record(), metrics=metrics)])
    (launch,) = load([path]).launches
    host, gpu, other = launch.record.metrics["host"], *launch.record.metrics["gpus"]
    assert host == timed(30, "cpu_cores")
    line = gpu.pop("timeline")
    assert POINTS / 2 <= len(line["at_s"]) <= POINTS
    assert [0.1 * value for value in line["values"]["power_w"]] == pytest.approx(line["at_s"])
    assert gpu == {name: value for name, value in timed(1).items() if name != "timeline"}
    assert other == {"name": "Example GPU"}, "of a second device only the facts are shown"


@pytest.mark.parametrize(
    "line", [{"values": []}, {"values": {"power_w": [1.0]}}, {"values": {"power_w": 5}}, {"at_s": None}, {"at_s": "x"}]
)
def test_a_line_of_a_strange_shape_goes_and_the_launch_stays(line: dict[str, Any], tmp_path: Path) -> None:
    for metrics in ({"host": timed(10, **line)}, {"gpus": [timed(10, **line), 5, None]}, {"gpus": "x"}, {"host": 7}):
        path = records.journal(tmp_path / "a.jsonl", [replace(records.record(), metrics=metrics)])
        (launch,) = load([path]).launches
        assert "timeline" not in json.dumps(launch.record.metrics)


def peak_bytes(of: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        of()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_large_file_does_not_stay_in_memory(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE", 1 << 16)
    names = {f"metric_{number}": [1.5] * 600 for number in range(20)}
    metrics = {"gpus": [timed(600, values=names)]}
    held = [replace(records.record("jax", launch), metrics=metrics) for launch in range(40)]
    path = (records.journal if form == "jsonl" else records.save)(tmp_path / f"a.{form}", held)
    whole = peak_bytes(lambda: [json.loads(line) for line in path.read_text().splitlines()])
    assert peak_bytes(lambda: load([path])) < whole / 3


def test_the_place_is_named_where_a_file_is_cut_off(tmp_path: Path) -> None:
    path = records.save(tmp_path / "a.json", [records.record()])
    path.write_text(path.read_text()[:-1] + ', "more": [1, 2')
    with pytest.raises(LoadError, match=r"a\.json: cut off or no JSON \(Expecting ',' delimiter: char \d+\)"):
        load([path])
