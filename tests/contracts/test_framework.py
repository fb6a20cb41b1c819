"""A further framework is its files and one declaration: it is not dropped, and is named and drawn everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.frameworks import Framework

    FAKE = Framework(
        "mxnet", "MXNet", colour="#CC79A7", hatch="xx", marker="D", dashes="1 3", compiles=("imperative", "hybrid"),
        faster=("hybrid",), strategies={"kvstore": "KVStore"}, package="mxnet", distributions=("mxnet",),
        variables={"MXNET_ENGINE_TYPE": "NaiveEngine"}, reads=("MXNET_",),
    )
"""

ASKED = """
    from suite.plan.cell import Cell

    from suite.catalog.settings import SETTINGS
    from suite.plan.matrix import matrix
    from suite.plan.sweeps.sweep import parse_values, swept, usual
    from suite.tune.__main__ import main as tune
    seen["option"] = SETTINGS["framework"].help
    seen["modes"] = SETTINGS["compile"].help
    seen["help of tune"] = tune.parser().format_help()
    seen["sweep"] = [cell.id for cell in swept(usual(gpu=False), {"batch": (8,)}).cells]
    seen["asked for"] = [c.id for c in swept(usual(gpu=False), {"framework": parse_values("framework", "mxnet")}).cells]
    seen["matrix"] = [cell.framework for cell in matrix("smoke").cells]
    several = Cell("imdb_lstm", "mxnet", devices=2)
    seen["id"], seen["strategy"] = several.id, several.strategy

    from suite.plan.settings.frameworks import variables_of
    from suite.session.launches.devices import BUILDS, find_build
    from suite.reproduce.install import INSTALLABLE
    from suite.catalog import frameworks as declared
    seen["variables"], seen["build"] = variables_of(several), [BUILDS["mxnet"][0], *find_build("mxnet")]
    from suite.record.parts.environment import select_variables
    seen["recorded"] = select_variables({"MXNET_OMP_MAX_THREADS": "1", "MXNET_HOME": "/home/ada", "MX_OTHER": "1"})
    seen["installable"], seen["itself"] = INSTALLABLE["mxnet"], declared.FRAMEWORKS["mxnet"].distributions
    from suite.doctor import probes
    seen["asked by the doctor"] = list(probes.FRAMEWORKS)
    from suite.session.eta import _distance
    seen["distance"] = _distance(Cell("imdb_lstm", "mxnet"), Cell("imdb_lstm", "jax"))

    from dataclasses import replace
    from tests import records
    known = records.launches(n=6)
    fake = [replace(each, cell=Cell("cifar100_cnn", "mxnet")) for each in records.launches(["pytorch"], n=6)]
    (table,) = records.tables([*known, *fake], "mxnet")
    seen["rows"], seen["baseline"] = list(table.frame["framework"]), table.baseline
    from suite.report.format.names import FRAMEWORKS, strategy
    from suite.report.text.answer import answer
    seen["answer"], seen["title"] = " ".join(answer([table], []).sentences), FRAMEWORKS["mxnet"]
    seen["strategy's title"] = strategy("kvstore")
    from suite.report.plots.kinds.bars import throughput
    from suite.report.plots.pens import face, stroke
    seen["look"] = [*face("mxnet").values(), stroke("mxnet")["marker"]]
    (panel,) = throughput(table).grid[0]
    seen["drawn"] = [each.group for each in panel.traces if each.kind == "bars"]
    from suite.analysis.bottlenecks.bottleneck import FASTER
    seen["faster"] = FASTER["mxnet"]

    from suite.compare.__main__ import main
    from suite.report import plots
    plots.draw = lambda *_: []
    records.save(Path("0001_a.json"), [*known, *fake])
    seen["comparison"] = printed(lambda: main(["0001_a.json", "--format", "json", "--baseline", "mxnet"]))
    seen["page"] = Path("runs/0001_a/report.html").read_text()

    from suite.export.contents import settings
    from suite.record.json_schema import json_schema
    from suite.report.tables.launches import document_columns
    seen["exported"], seen["documented"] = settings(fake[0])["framework"], document_columns()
    seen["schema"] = json_schema()["$defs"]["Cell"]["properties"]["framework"]["enum"]
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "frameworks", DECLARED, ASKED)


def test_options_name_it_with_its_modes(seen: dict[str, Any]) -> None:
    assert "mxnet" in seen["option"]
    assert "mxnet: imperative, hybrid" in seen["modes"]
    assert "mxnet" in seen["help of tune"]


def test_sweeps_and_matrices_have_it(seen: dict[str, Any]) -> None:
    assert seen["asked for"] == [
        f"{workload}-mxnet-fp32-b32-imperative-tuned" for workload in ("cifar100_cnn", "imdb_lstm")
    ]
    assert "imdb_lstm-mxnet-fp32-b8-imperative-tuned" in seen["sweep"]
    assert "mxnet" in seen["matrix"]
    assert (seen["id"], seen["strategy"]) == ("imdb_lstm-mxnet-fp32-b32-imperative-tuned-d2", "kvstore")


def test_its_process_its_environment_and_the_doctor_know_it(seen: dict[str, Any]) -> None:
    assert seen["variables"] == {"MXNET_ENGINE_TYPE": "NaiveEngine"}
    assert seen["recorded"] == {"MXNET_OMP_MAX_THREADS": "1"}
    assert seen["build"] == ["mxnet", "", False]
    assert "mxnet" in seen["installable"]
    assert seen["itself"] == ["mxnet"]
    assert "mxnet" in seen["asked by the doctor"]
    assert seen["distance"] == 2


def test_tables_and_sentences_name_it(seen: dict[str, Any]) -> None:
    assert "mxnet" in seen["rows"]
    assert seen["baseline"] == "mxnet"
    assert seen["title"] == "MXNet"
    assert seen["strategy's title"] == "KVStore"
    assert seen["faster"] == ["hybrid"]
    assert "MXNet" in seen["answer"]


def test_plots_draw_it_in_its_own_look(seen: dict[str, Any]) -> None:
    assert seen["look"] == ["#CC79A7", "xx", "D"]
    assert seen["drawn"] == ["pytorch", "tensorflow", "jax", "mxnet"]


def test_files_schemas_and_trackers_have_it(seen: dict[str, Any]) -> None:
    assert '"framework": "mxnet"' in seen["comparison"]
    assert "mxnet" in seen["page"]
    assert seen["exported"] == "mxnet"
    assert "`mxnet`" in seen["documented"]
    assert "mxnet" in seen["schema"]
