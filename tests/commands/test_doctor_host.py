"""`training-suite doctor` on a host that is slow, busy or limited."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.doctor import checks
from suite.doctor.checks import WARNING, host
from suite.monitor.background import Background


def test_what_slows_a_host_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {"scaling_governor": "powersave", "memory.max": str(1 << 28)}
    monkeypatch.setattr(checks, "_read", lambda path: files[Path(path).name])
    monkeypatch.setattr("suite.record.parts.environment.GROUPS", tmp_path)
    monkeypatch.setattr("suite.record.parts.environment.OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("0::/docker/123\n")
    (tmp_path / "docker" / "123").mkdir(parents=True)
    (tmp_path / "docker" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "docker" / "123" / "cpu.max").write_text("max 100000\n")
    monkeypatch.setattr(checks, "measure", lambda: Background(0.5, 2, 0.0, 0.32, ("python3", "dd")))
    monkeypatch.setattr(checks, "share_stolen", lambda: 0.18)
    text = "\n".join(map(str, host()))
    for words in (
        "other processes use 0.5 of 2 cores (python3, dd); the host steals 16 %",
        "--wait-idle",
        "18 %",
        "governor is powersave",
        "limits it to 0.5 cores",
        "limits memory to 0.2 GiB",
    ):
        assert words in text


def test_an_idle_host_is_told_nothing_of_load(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([Background(0.1, 2), Background(0.0, 2, 0.0, 0.8)])
    monkeypatch.setattr(checks, "measure", lambda: next(loads))
    monkeypatch.setattr(checks, "share_stolen", lambda: 0.01)
    told = ["\n".join(map(str, host())) for _ in range(2)]
    assert "other processes" not in told[0]
    assert "steals 40 %" in told[1]
    assert "--wait-idle" not in told[1], "waiting does not end what a host does"


@pytest.mark.parametrize(
    ("room", "words"),
    [(None, "is missing"), ((64_000_000, 60_000_000), "60 of 64 MB left"), ((2**33, 2**20), "1 of 8590 MB left"),
     ((2**31, 2**31), "")],
)  # fmt: skip
def test_little_shared_memory_is_named(
    room: tuple[int, int] | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "measure", lambda: Background(0.0, 2))
    monkeypatch.setattr(checks, "shared_memory", lambda: room)
    found = [finding for finding in checks.host() if "/dev/shm" in finding.text]
    assert [finding.status for finding in found] == [WARNING] * bool(words)
    assert all(words in finding.text and "--shm-size" in finding.mend for finding in found)
