"""What follows a journal sends each launch once, whatever happens in between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.export.follow import Follower
from suite.export.target import ExportError, Origin, Target
from suite.record.record import Record
from suite.session.observers import Observers
from suite.session.tracker import Tracker
from tests import records


@dataclass
class Kept:
    """A target that remembers; ``down`` are how many of the next calls fail."""

    added: list[str] = field(default_factory=list)
    down: int = 0

    def place(self, given: str | None) -> str:
        return given or ""

    def begin(self, place: str, origin: Origin) -> Any:
        self._fail()
        return origin

    def add(self, session: Any, record: Record) -> bool:
        self._fail()
        self.added.append(record.key)
        return True

    def attach(self, session: Any, files: Sequence[Path]) -> int:
        return 0

    def end(self, session: Any) -> str:
        return f"at the end of {session.run}"

    def _fail(self) -> None:
        if self.down:
            self.down -= 1
            raise ExportError("down")


def follower(target: Target, path: Path) -> Follower:
    return Follower(target, "", path)


def test_each_launch_is_sent_once_as_it_comes(tmp_path: Path) -> None:
    held = [records.record(launch=n) for n in range(3)]
    target, path = Kept(), records.journal(tmp_path / "run.jsonl", held[:1])
    following = follower(target, path)
    following.open()
    assert target.added == []
    assert following.catch_up()
    with path.open("a") as file:
        file.write(json.dumps(held[1].to_json()) + "\n" + json.dumps(held[2].to_json())[:50])
    assert following.catch_up()
    assert target.added == [record.key for record in held[:2]], "a half line is no launch yet"
    with path.open("a") as file:
        file.write(json.dumps(held[2].to_json())[50:] + "\n")
    assert following.end() == "at the end of run"
    assert target.added == [record.key for record in held]


def test_after_an_error_it_goes_on_where_it_failed(tmp_path: Path) -> None:
    held = [records.record(launch=n) for n in range(3)]
    target = Kept(down=1)
    following = follower(target, records.journal(tmp_path / "run.jsonl", held))
    with pytest.raises(ExportError, match="down"):
        following.catch_up()
    target.down = 0
    assert following.catch_up()
    assert target.added == [record.key for record in held]


def test_an_answer_comes_in_time_though_launches_are_left(tmp_path: Path) -> None:
    target = Kept()
    following = follower(target, records.journal(tmp_path / "run.jsonl", records.launches(n=1)))
    assert not following.catch_up(limit_s=-1.0)
    assert target.added == []
    assert following.catch_up()


@pytest.mark.launches
@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_run_is_tracked_while_it_goes_on(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name, reason=f"needs {name}: tox run -m reach-tests")
    held = [records.record(launch=n) for n in range(2)]
    path = records.journal(tmp_path / "run.jsonl", [])
    tracker = Tracker(name, str(tmp_path / "to"), str(tmp_path / "to"))
    observers = Observers([tracker])
    observers.tell("begin", path, {}, 2, [])
    for number, record in enumerate(held, 1):
        with path.open("a") as file:
            file.write(json.dumps(record.to_json()) + "\n")
        observers.tell("end", record, None)
        assert tracker.sent == number
    (line,) = observers.close()
    assert line.startswith(f"tracked by {name}: {tmp_path}/to")
    assert observers.close() == []
