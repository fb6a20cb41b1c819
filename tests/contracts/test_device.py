"""A further kind of device is one declaration, besides what the frameworks' files and the monitor do with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.installed import ask

DECLARED = """
    from suite.catalog.devices import Device

    FAKE = Device("mps", "Apple GPU", is_here=lambda: True)
"""

ASKED = """
    import io
    from contextlib import redirect_stdout, suppress
    from suite.tune.options import parser
    from suite.catalog.devices import DEVICES
    from suite.profile.__main__ import main as profile
    from suite.reproduce.__main__ import main as reproduce

    def printed(act):
        with redirect_stdout(text := io.StringIO()), suppress(SystemExit):
            act()
        return " ".join(text.getvalue().split())

    seen["helps"] = [parser().format_help(), *(printed(lambda: main(["--help"])) for main in (profile, reproduce))]
    seen["taken"], seen["here"] = parser().parse_args(["--device", "mps"]).device, DEVICES["mps"].is_here()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return ask(tmp_path_factory.mktemp("installed"), "devices", DECLARED, ASKED)


def test_every_option_for_a_device_takes_it(seen: dict[str, Any]) -> None:
    assert all("mps" in text for text in seen["helps"])
    assert seen["taken"] == "mps"
    assert seen["here"]


@pytest.mark.xfail(
    strict=True,
    reason="PEAK_SIDE, TRIAD_ELEMENTS and PEAK_BYTES of the worker, Operation.device of a profile, and the comparisons "
    'with "cuda" in session/run, monitor/sampler, identity/verdicts and scaling/communication know two devices only',
)
def test_what_is_measured_of_a_device_is_declared_with_it() -> None:
    from suite.catalog.devices import Device

    assert "peak_side" in Device.__dataclass_fields__
