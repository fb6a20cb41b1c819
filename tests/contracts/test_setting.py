"""A further setting is one declaration: its option, id, sweep, axis, columns, words and labels follow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.setting import Setting

    FAKE = Setting(
        name="rounding", default="nearest", choices=("nearest", "stochastic"), is_later=True,
        help="how weights are rounded: nearest, stochastic (default: nearest)", meaning="how weights were rounded",
    )
"""

ASKED = """
    import pytest
    from suite.plan.cell import Cell, CellError

    from suite.compare.options import parse
    from suite.tune.__main__ import main as tune
    seen["help of compare"] = printed(lambda: parse(["--help"]))
    seen["help of tune"] = tune.parser().format_help()
    seen["help of pytest"] = printed(lambda: pytest.main(["-p", "suite.plugin", "--help"]))

    from suite.plan.sweeps.sweep import describe_axes, name, parse_values, swept, usual
    values = parse_values("rounding", "nearest,stochastic")
    axes = {"framework": ("pytorch",), "workload": ("imdb_lstm",), "rounding": values}
    seen["sweep"] = [cell.id for cell in swept(usual(gpu=False), axes).cells]
    seen["sweep's name"] = name("sweep", axes)
    seen["typed"] = describe_axes(axes)

    from suite.plan.sweeps import files
    Path("sweep.toml").write_text('rounding = ["nearest", "stochastic"]')
    seen["TOML"] = [cell.id for cell in files.read_sweep(Path("sweep.toml"), gpu=False).cells]

    usual_cell, cell = Cell("imdb_lstm", "jax"), Cell("imdb_lstm", "jax", rounding="stochastic")
    seen["id"], seen["JSON"], seen["usual JSON"] = cell.id, cell.to_json(), usual_cell.to_json()
    seen["back"] = Cell.from_json(cell.to_json()) == cell
    try:
        Cell("imdb_lstm", "jax", rounding="up")
    except CellError as error:
        seen["refused"] = str(error)
    from suite.profile.chosen import parse_cell
    seen["by its id"] = parse_cell(cell.id) == cell
    from suite.record.json_schema import json_schema
    seen["schema"] = json_schema()["$defs"]["Cell"]["properties"]["rounding"]

    from dataclasses import replace
    from tests import records
    from suite.analysis.records.load import Launch
    from suite.analysis.rows.groups import group
    from suite.report.screen.short import short
    from suite.report.tables.timed import view
    from suite.report.tables.frame import table
    usually = records.launches(n=6)
    changed = [replace(each, cell=each.cell.but(compile=each.cell.compile, rounding="stochastic")) for each in usually]
    launches = [Launch(each, "run-a", "a.json") for each in (*usually, *changed)]
    (along,) = [table(each) for each in group(launches, by="rounding")]
    (across,) = [table(each) for each in group(launches)]
    (alone,) = [table(each) for each in group(launches[len(usually):])]
    seen["headers"] = list(view(across).grid.headers)
    seen["ratios are to"], seen["title of one"] = along.baseline, alone.group.constant
    seen["screen"] = short([each.record for each in launches], "run-a", 200)
    seen["label"] = across.group.label(across.group.rows[-1])
    seen["cells.csv"] = list(across.rows[0])

    from suite.report.tables.launches import document_columns, launch_table
    seen["launches.csv"] = list(dict.fromkeys(launch_table(launches)["rounding"]))
    seen["documented"] = document_columns()
    from suite.compare.__main__ import main
    from suite.report import plots
    plots.draw = lambda *_: []
    records.save(Path("0001_a.json"), [each.record for each in launches])
    seen["comparison"] = printed(lambda: main(["0001_a.json", "--format", "json"]))
    seen["page"] = Path("runs/0001_a/report.html").read_text()

    from suite.export.contents import settings
    from suite.export.contents import CELL
    seen["exported"], seen["labels of metrics"] = settings(changed[0]), list(CELL)

    from suite.analysis.search.effects import SETTINGS
    from suite.analysis.statistics.changes import find_speedups
    from suite.plan.space import space
    from suite.report.text.search import label
    seen["effects"] = list(SETTINGS)
    seen["gains"] = sorted({gain.axis for gain in find_speedups(across.group, across.identities)})
    seen["search"] = len(space([], {"rounding": ("nearest", "stochastic")}, gpu=False).cells)
    seen["label of a search"] = label(cell, [cell, usual_cell])

    from suite.report.format import names
    from suite.report.plots.naming import values_of
    seen["in words"] = names.name_value("rounding", "stochastic")
    seen["on plots"] = values_of(across.group.rows[-1], ["rounding"])
    from suite.session.eta import _distance
    seen["distance"] = _distance(cell, usual_cell)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "settings", DECLARED, ASKED)


@pytest.mark.parametrize("command", ["pytest", "tune", "compare"])
def test_it_has_an_option(seen: dict[str, Any], command: str) -> None:
    assert "rounding" in seen[f"help of {command}"]


def test_it_can_be_swept_on_the_command_line_and_in_a_file(seen: dict[str, Any]) -> None:
    assert seen["sweep"] == [f"imdb_lstm-pytorch-fp32-b32-eager-tuned{end}" for end in ("", "-stochastic")]
    assert seen["sweep's name"].endswith("-nearest+stochastic")
    assert seen["typed"].endswith("rounding nearest,stochastic")
    assert sum(each.endswith("-stochastic") for each in seen["TOML"]) == len(seen["TOML"]) / 2 > 0


def test_it_is_in_the_id_and_the_json_where_it_is_not_usual(seen: dict[str, Any]) -> None:
    assert seen["id"] == "imdb_lstm-jax-fp32-b32-compile-tuned-stochastic"
    assert seen["JSON"]["rounding"] == "stochastic"
    assert "rounding" not in seen["usual JSON"]
    assert seen["back"]
    assert seen["by its id"]
    assert seen["refused"] == "unknown rounding 'up'; there are: nearest, stochastic"
    assert seen["schema"] == {"type": "string", "default": "nearest", "enum": ["nearest", "stochastic"]}


def test_tables_have_it_as_a_column_and_as_an_axis(seen: dict[str, Any]) -> None:
    assert "rounding" in seen["headers"]
    assert "rounding" in seen["screen"]
    assert seen["ratios are to"] == "nearest"
    assert "rounding stochastic" in seen["title of one"]
    assert seen["label"].endswith("stochastic")


def test_json_and_page_of_a_comparison_have_it(seen: dict[str, Any]) -> None:
    assert '"rounding": "nearest"' in seen["comparison"]
    assert '"rounding": "stochastic"' in seen["comparison"]
    assert "stochastic" in seen["page"]


def test_files_have_it_as_a_column_that_is_documented(seen: dict[str, Any]) -> None:
    assert "rounding" in seen["cells.csv"]
    assert seen["launches.csv"] == ["nearest", "stochastic"]
    assert "| `rounding` | text | \u2013 | how weights were rounded |" in seen["documented"]


def test_trackers_and_metrics_get_it(seen: dict[str, Any]) -> None:
    assert seen["exported"]["rounding"] == "stochastic"
    assert "rounding" in seen["labels of metrics"]


def test_a_search_takes_it(seen: dict[str, Any]) -> None:
    assert "rounding" in seen["effects"]
    assert seen["gains"] == ["rounding"]
    assert seen["search"] == 12
    assert seen["label of a search"] == "jax \u00b7 stochastic"
    assert seen["distance"] == 1


def test_sentences_and_plots_name_it(seen: dict[str, Any]) -> None:
    assert seen["in words"] == "rounding stochastic"
    assert seen["on plots"] == "rounding stochastic"
