"""A further phase is one declaration, which names the function that makes its steps."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from suite.catalog.phases import PHASES
from tests.installed import ask

DECLARED = """
    from suite.catalog.phases import Phase

    FAKE = Phase("inference", "the forward pass alone", "inference-only", "#ABCDEF", "xx", steps="fake:steps")

    def steps(timed):
        import time

        def passes(count):
            timed.training.passes += count
            time.sleep(1e-5 * count)

        return passes
"""

ASKED = """
    from dataclasses import replace
    from tests import records
    from suite.analysis.records.load import Launch
    from suite.record.json_schema import json_schema
    from suite.record.record import Record
    from suite.export.contents import figures
    from suite.export.live import PHASES
    from suite.report.plots.kinds.timeline import SHADED
    from suite.report.tables.launches import document_columns, launch_table
    held = records.record()
    held = replace(held, phases=held.phases | {"inference": held.phases["compute"]})
    seen["back"] = Record.from_json(held.to_json()).phases.keys() == held.phases.keys()
    seen["schema"] = json.dumps(json_schema()["$defs"]["Record"]["properties"]["phases"])
    seen["columns"] = [name for name in launch_table([Launch(held, "run-a", "a.json")]) if "inference" in name]
    seen["documented"] = document_columns()
    seen["band"] = [[each.shade, each.hatch, each.title] for each in SHADED if each.name == "inference"]
    from types import SimpleNamespace
    from suite.plan.measuring import Plan
    from suite.plan.command.options import with_phases
    from suite.worker.launch.phases import measure_phases
    plan = with_phases(Plan(1e-4, 2, 0.01), "train,inference")
    training = SimpleNamespace(passes=0, step=float, fence=lambda _: None, count_compiled=lambda: 0, read=list)
    class Loader:
        delivered = 0
        def __next__(self):
            self.delivered += 1
            return 1
    tools, send = SimpleNamespace(updates=lambda _: None), lambda **_: None
    found = measure_phases(training, Loader(), plan, batch=2, send=send, spawned_ns=0, tools=tools)
    seen["measured"], seen["passes"] = list(found.phases), training.passes
    seen["in every launch"] = plan.of_launch(1007).phases
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
    assert seen["band"] == [["#ABCDEF", "xx", "inference-only"]]
    assert seen["exported"] == ["inference.samples_per_s", "inference.step_s"]
    assert "inference" in seen["live"]


def test_a_launch_that_is_asked_for_it_takes_its_steps(seen: dict[str, Any]) -> None:
    assert seen["measured"] == ["train", "inference"]
    assert seen["passes"] > 2
    assert seen["in every launch"] == ["train", "inference"]


def test_the_steps_of_each_phase_are_there() -> None:
    places = [phase.steps.split(":") for phase in PHASES.values()]
    assert all(callable(getattr(import_module(module), function)) for module, function in places)
