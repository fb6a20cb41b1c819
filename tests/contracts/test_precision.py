"""A further precision is one declaration: its numbers, the error that shows it, and where it may run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.precisions import Band, Precision

    FAKE = Precision("fp8", Band(1e-2, 1e-1), 0.5, compute="float8_e4m3", gpu_only="FP8 needs the newest tensor cores")
"""

ASKED = """
    from suite.catalog.settings import SETTINGS
    from suite.plan.cell import Cell
    from suite.plan.measuring import Plan
    from suite.plan.space import DEFAULTS
    from suite.plan.sweeps.sweep import parse_values, swept, usual
    from suite.worker.frameworks import NUMBERS, UnsupportedError, check
    from suite.worker.launch.probe import BANDS
    cell = Cell("imdb_lstm", "jax", "fp8")
    seen["id"], seen["back"] = cell.id, Cell.from_json(cell.to_json()) == cell
    seen["help"], seen["search"] = SETTINGS["precision"].help, [DEFAULTS[gpu]["precision"] for gpu in (False, True)]
    seen["sweep"] = len(swept(usual(gpu=False), {"precision": parse_values("precision", "fp32,fp8")}).cells)
    seen["numbers"], seen["error"] = NUMBERS["fp8"].compute, 5e-2 in BANDS["fp8"]
    try:
        check(cell, "cpu")
    except UnsupportedError as error:
        seen["on a CPU"] = str(error)

    from dataclasses import replace
    from suite.session.eta import ENDED_EARLY_S, Eta
    seen["guess"] = Eta(Plan(), cpu=True).left_s([(cell, False)]) == ENDED_EARLY_S
    from suite.record.json_schema import json_schema
    seen["schema"] = json_schema()["$defs"]["Cell"]["properties"]["precision"]["enum"]

    from tests import records
    from suite.doctor import probes
    from suite.report.format.text import capital
    usual_rows = records.launches(["jax"], n=6)
    rows = [replace(each, cell=each.cell.but(precision="fp8")) for each in usual_rows]
    (table,) = records.tables([*usual_rows, *rows], "jax")
    seen["rows"], seen["capital"] = list(table.frame["precision"]), capital("fp8 is faster")
    seen["asked by the doctor"] = list(probes.PRECISIONS)
    from suite.analysis.identity.tolerances import tolerance_of
    seen["ranked"] = tolerance_of("cifar100_cnn", "fp8", cuda=True) is not None
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "precisions", DECLARED, ASKED)


def test_it_is_a_value_of_the_setting(seen: dict[str, Any]) -> None:
    assert seen["id"] == "imdb_lstm-jax-fp8-b32-compile-tuned"
    assert seen["back"]
    assert "fp8" in seen["help"]
    assert "fp8" in seen["schema"]
    assert seen["sweep"] == 12


def test_it_has_numbers_and_an_error_that_shows_it(seen: dict[str, Any]) -> None:
    assert seen["numbers"] == "float8_e4m3"
    assert seen["error"]


def test_a_device_that_lacks_it_says_so(seen: dict[str, Any]) -> None:
    assert seen["on a CPU"] == "FP8 needs the newest tensor cores; this device is a CPU"
    assert seen["search"] == ["fp32,bf16", "fp32,tf32,bf16,fp16,fp8"]
    assert seen["guess"]
    assert "fp8" in seen["asked by the doctor"]


def test_tables_have_it_and_rank_it_once_its_tolerance_was_measured(seen: dict[str, Any]) -> None:
    assert seen["rows"][-1] == "fp8"
    assert seen["capital"] == "fp8 is faster"
    assert not seen["ranked"]
