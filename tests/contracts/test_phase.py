"""A further phase is one declaration, besides the worker's code that takes its steps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.phases import Phase

    FAKE = Phase("inference", "the forward pass alone", "inference-only", "#ABCDEF", "xx")
"""

ASKED = """
    from dataclasses import replace
    from tests import records
    from suite.analysis.records.load import Launch
    from suite.record.files.json_schema import json_schema
    from suite.record.record import Record
    from suite.export.contents import figures
    from suite.export.live import PHASES
    from suite.report.plots.kinds.timeline import PHASE_NAMES, SHADE
    from suite.report.tables import tidy
    from suite.report.tables.launch_columns import documented
    held = records.record()
    held = replace(held, phases=held.phases | {"inference": held.phases["compute"]})
    seen["back"] = Record.from_json(held.to_json()).phases.keys() == held.phases.keys()
    seen["schema"] = json.dumps(json_schema()["$defs"]["Record"]["properties"]["phases"])
    seen["columns"] = [name for name in tidy.launch_frame([Launch(held, "run-a", "a.json")]) if "inference" in name]
    seen["documented"] = documented()
    seen["band"] = [SHADE["inference"], PHASE_NAMES["inference"]]
    seen["exported"], seen["live"] = sorted(name for name in figures(held) if "inference" in name), PHASES
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "phases", DECLARED, ASKED)


def test_a_record_and_its_schema_hold_it(seen: dict[str, Any]) -> None:
    assert seen["back"]
    assert "inference" in seen["schema"]


def test_launches_have_its_columns(seen: dict[str, Any]) -> None:
    assert len(seen["columns"]) == 7
    assert "`inference_samples_per_s` | number | samples/s | the forward pass alone" in seen["documented"]


def test_timelines_trackers_and_live_metrics_show_it(seen: dict[str, Any]) -> None:
    assert seen["band"] == [{"facecolor": "#ABCDEF", "hatch": "xx"}, "inference-only"]
    assert seen["exported"] == ["inference.samples_per_s", "inference.step_s"]
    assert "inference" in seen["live"]


@pytest.mark.xfail(strict=True, reason="suite/worker/launch/phases.py and session/launches name the phases that run")
def test_a_launch_takes_its_steps() -> None:
    from suite.worker.launch import phases

    assert hasattr(phases, "STEPS")
