"""A further kind of device is one declaration, besides what the frameworks' files and the monitor do with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.devices import Device

    FAKE = Device("mps", "Apple GPU", is_here=lambda: True, peak_side=4096)
"""

ASKED = """
    from suite.analysis.records.load import Launch
    from suite.analysis.rows.groups import Row
    from suite.analysis.statistics.scaling import threads_per_device
    from suite.plan.schema import decode
    from suite.record.parts.profile import Operation
    from suite.tune.__main__ import main as tune
    from tests import records
    from suite.catalog.devices import DEVICES
    from suite.profile.__main__ import main as profile
    from suite.reproduce.__main__ import main as reproduce

    seen["helps"] = [tune.parser().format_help(), *(printed(lambda: main(["--help"])) for main in (profile, reproduce))]
    fake = DEVICES["mps"]
    seen["sizes"] = [fake.peak_side, fake.triad_elements, fake.summed_bytes]
    operation = decode(Operation, {"name": "gemm", "category": "other", "seconds": 1.0, "calls": 1, "device": "mps"})
    record = records.record("pytorch", settings={"device": "mps", "threads": 8})
    row = Row("run", record.cell, (Launch(record, "run", "file"),))
    seen["operation"], seen["threads"] = operation.device, threads_per_device(row)
    seen["taken"], seen["here"] = tune.parser().parse_args(["--device", "mps"]).device, DEVICES["mps"].is_here()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "devices", DECLARED, ASKED)


def test_every_option_for_a_device_takes_it(seen: dict[str, Any]) -> None:
    assert all("mps" in text for text in seen["helps"])
    assert seen["taken"] == "mps"
    assert seen["here"]


def test_what_is_measured_of_a_device_is_declared_with_it(seen: dict[str, Any]) -> None:
    """The sizes behind its peaks; its operations in a profile, and its name and threads in a record."""
    assert seen["sizes"] == [4096, 2**28, 2**28]
    assert seen["operation"] == "mps"
    assert seen["threads"] == ""
