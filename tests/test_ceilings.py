"""No room grows unseen: what `tests/ceilings.toml` allows is at least what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ceilings


def test_no_room_is_above_its_ceiling() -> None:
    allowed, found = ceilings.read(), ceilings.sizes()
    assert {section: [*numbers] for section, numbers in allowed.items()} == {
        section: [*numbers] for section, numbers in found.items()
    }, "each room has a line, and each line a room: python -m tests.ceilings"
    above = {
        f"{section} of {name}": f"{number:,}, allowed are {allowed[section][name]:,}"
        for section, numbers in found.items()
        for name, number in numbers.items()
        if number > allowed[section][name]
    }
    assert not above, 'make room, or give a reason: python -m tests.ceilings --raise "REASON"'


def test_a_ceiling_is_lowered_by_the_command_and_raised_with_a_reason_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "TABLE", tmp_path / "ceilings.toml")

    def write(suite: int, plain: int, *arguments: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(ceilings, "sizes", lambda: {"lines": {"suite/a": suite, "workloads/b": plain}})
        status = ceilings.main(arguments)
        return status, ceilings.TABLE.read_text().splitlines()[-2:]

    assert write(10, 20) == (0, ['"suite/a" = 10', '"workloads/b" = 20'])
    assert write(9, 21) == (1, ['"suite/a" = 9', '"workloads/b" = 20'])
    assert write(9, 21, "--raise", "a plot") == (0, ['"suite/a" = 9', '"workloads/b" = 21  # a plot'])
    assert write(8, 21) == (0, ['"suite/a" = 8', '"workloads/b" = 21  # a plot'])
