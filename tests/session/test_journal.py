from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from suite.record.chain import BEFORE, PRIVATE, digest
from suite.record.record import Record
from suite.session.journal import Journal, JournalError, read
from tests import records

RUN = {"id": "run-a", "seed": 1, "matrix": "smoke"}
ROOT = Path(__file__).parents[2]


def plain(found: list[Record]) -> list[Record]:
    """The records without the digests of the lines before them."""
    return [replace(each, run={name: value for name, value in each.run.items() if name != BEFORE}) for each in found]


def chain(path: Path) -> list[tuple[str, str]]:
    """What each record says of the line before, and what that is."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(line["run"].get(BEFORE, ""), digest(before)) for before, line in pairwise(lines)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three launches, closed."""
    journal = Journal(tmp_path / "journals" / "run-a.jsonl", RUN)
    for record in records.launches(n=1):
        journal.append(record)
    journal.close()
    return journal.path


def test_what_is_appended_is_read_back(path: Path) -> None:
    run, found, size = read(path)
    assert run == RUN
    assert plain(found) == records.launches(n=1)
    assert size == path.stat().st_size


def test_a_record_is_in_the_file_before_the_next_launch_starts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl", RUN)
    for number, record in enumerate(records.launches(n=2), 1):
        journal.append(record)
        assert len(read(journal.path)[1]) == number
    journal.close()


def test_an_opened_journal_goes_on_as_the_run_that_it_is(path: Path) -> None:
    journal = Journal(path, {"id": "another"})
    assert journal.run == RUN
    assert plain(journal.records) == records.launches(n=1)
    journal.append(records.record(launch=1))
    journal.close()
    assert plain(read(path)[1]) == [*records.launches(n=1), records.record(launch=1)]


@pytest.mark.parametrize("cut", [1, 2, 400])
def test_a_half_written_last_line_is_dropped_on_reading_and_cut_off_before_appending(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:-cut])
    assert plain(read(path)[1]) == records.launches(n=1)[:2]
    assert len(path.read_bytes()) > read(path)[2], "reading changes nothing"
    journal = Journal(path, {})
    journal.append(records.record(launch=7))
    journal.close()
    assert plain(read(path)[1]) == [*records.launches(n=1)[:2], records.record(launch=7)]
    assert [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "content",
    [
        b"a diary\n",
        b"{}\n",
        b"[]\n",
        b"5\n",
        b"\n",
        b'{"run": 5}\n',
        b'{"run": {"id": "half',
        b'{"run": {"id": "a"}}\n{"schema": 1}\n',
        b'{"run": {"id": "a"}}\n\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_foreign_file_is_refused_in_one_line_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "diary.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"^diary\.jsonl is not a journal of this suite: [^\n]+$"):
        Journal(path, RUN)
    assert path.read_bytes() == content


def test_two_runs_do_not_write_one_journal(path: Path) -> None:
    first = Journal(path, {})
    with pytest.raises(JournalError, match=r"run-a\.jsonl is in use by another run; wait for it, or start without"):
        Journal(path, {})
    first.close()
    Journal(path, {}).close()


def test_a_folder_that_cannot_be_made_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"^cannot open a\.jsonl: [^\n]+; name another folder$"):
        Journal(tmp_path / "file" / "a.jsonl", RUN)


def test_a_full_disk_keeps_what_was_there_and_the_run_can_go_on(path: Path) -> None:
    """The kernel's limit on the size of a file stands in for the disk: it too lets through what still fits."""
    code = (
        "import resource, sys; from pathlib import Path; from suite.session.journal import Journal, JournalError\n"
        "from tests import records\n"
        "path = Path(sys.argv[1]); journal = Journal(path, {})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, resource.RLIM_INFINITY))\n"
        "try: journal.append(records.record(launch=1))\n"
        "except JournalError as error: print(error)\n"
        "assert len(journal.records) == 3\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "journal.append(records.record(launch=2)); journal.close()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "cannot write run-a.jsonl: File too large; what was there is kept. "
        "Free some space, then continue with --resume=run-a\n"
    )
    assert plain(read(path)[1]) == [*records.launches(n=1), records.record(launch=2)]


def test_a_disk_without_room_for_the_first_line_is_named_and_leaves_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(JournalError, match=r"cannot write a\.jsonl: No space left"):
            Journal(tmp_path / "a.jsonl", RUN)
    assert (tmp_path / "a.jsonl").read_bytes() == b""
    Journal(tmp_path / "a.jsonl", RUN).close()
    assert read(tmp_path / "a.jsonl")[0] == RUN


def test_a_folder_without_room_for_another_file_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(JournalError, match=r"^cannot open a\.jsonl: No space left on device; name another folder$"):
        Journal(tmp_path / "new" / "a.jsonl", RUN)


def test_each_line_has_the_digest_of_the_one_before(path: Path) -> None:
    assert all(named == made for named, made in chain(path))
    journal = Journal(path, {})
    kept = journal.append(records.record(launch=1))
    journal.close()
    assert len(chain(path)) == 4
    assert all(named == made for named, made in chain(path))
    assert kept == read(path)[1][-1], "what is saved is what the journal has"


def test_a_long_last_line_is_found_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl", RUN)
    journal.append(records.record(log=tuple(f"{number:08}" for number in range(30_000))))
    journal.close()
    journal = Journal(tmp_path / "a.jsonl", RUN)
    journal.append(records.record(launch=1))
    journal.close()
    assert all(named == made for named, made in chain(tmp_path / "a.jsonl"))


def test_an_older_journal_without_digests_goes_on_with_them(tmp_path: Path) -> None:
    path = records.journal(tmp_path / "a.jsonl", records.launches(n=1))
    journal = Journal(path, {})
    journal.append(records.record(launch=1))
    journal.close()
    assert [bool(named) for named, _ in chain(path)] == [False, False, False, True]
    assert chain(path)[-1][0] == chain(path)[-1][1]


def test_what_a_bundle_may_leave_out_changes_no_digest() -> None:
    line = records.failed(records.record(environment={"variables": {"A": "1"}, "digest": "x"})).to_json()
    line["run"] |= {"host": "h1", "typed": {"k": "jax"}}
    other = {**line, "log": ["said"], "outcome": {**line["outcome"], "reason": ""}}
    other |= {"run": {**line["run"], "host": "h2", "typed": {}}, "environment": {"digest": "x"}}
    assert digest(line) == digest(other)
    assert digest(line) != digest({**line, "started": "2027"})
    assert ("log",) in PRIVATE
