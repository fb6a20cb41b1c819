"""What a bundle tells of who measured: nothing. And that it is written only if its maker agrees."""

from __future__ import annotations

import getpass
import io
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError, load
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.settings import TUNINGS
from suite.catalog.variables import public_value
from suite.plan.cell import Cell
from suite.plan.settings.allocators import CHOSEN_BY
from suite.plan.settings.frameworks import variables_of
from suite.plan.settings.tunings import host_memory
from suite.record.bundle import SUFFIX, BundleError, read, write
from suite.record.chain import BEFORE
from suite.record.parts.environment import redact
from suite.session.journal import Journal
from suite.submit.__main__ import main
from suite.submit.contents import contents
from suite.submit.privacy import hidden, names_in, public
from suite.verify.rule import FAILED
from suite.verify.rules import verify
from tests import records
from tests.records import replace

RUN = {"id": "run-a", "seed": 1, "plan": {}, "typed": {"k": "not jax"}, "launches": 2}
UUID = "GPU-12345678-1234-1234-1234-123456789abc"


def line(**changes: Any) -> dict[str, Any]:
    return records.failed(records.record()).to_json() | changes


def texts(made: Any) -> str:
    return json.dumps(made)


def kept(tmp_path: Path, n: int = 2) -> Path:
    """A saved run and its journal; returns the saved run."""
    journal = Journal(tmp_path / "journals" / "run-a.jsonl", RUN)
    gpu = {"gpus": [{"uuid": UUID, "name": "NVIDIA H100"}]}
    held = [journal.append(replace(each, metrics=gpu)) for each in records.launches(n=n)]
    journal.close()
    return records.save(tmp_path / "runs" / "0001_smoke.json", held)


def test_devices_hosts_and_interfaces_become_hashes_that_nobody_can_undo() -> None:
    host = {"id": "run-a", "host": "node17"}
    made = public(line(metrics={"gpus": [{"uuid": UUID}]}, run=host, ranks={"interface": "enp3s0f1"}), hidden())
    assert not [word for word in (UUID, "node17", "enp3s0f1") if word in texts(made)]
    hide = hidden()
    assert hide("a") == hide("a") != hide("b")
    assert hide("a") != hidden()("a")


def test_texts_lose_paths_and_names() -> None:
    said = [f"Error in /home/alice/secret/model.py on {socket.gethostname()}"]
    made = public(line(log=said, outcome={"status": "error", "reason": "no /home/alice/secret/x"}), hidden())
    assert not [word for word in ("alice", "secret", socket.gethostname()) if word in texts(made)]


#: What a variable holds, and what of it leaves the machine; None where its name does not either.
VARIABLES = {
    "OMP_NUM_THREADS": ("4", "4"),
    "KMP_AFFINITY": ("granularity=fine,compact,1,0", "granularity=fine,compact,1,0"),
    "OMP_PLACES": ("{0:4}:4:2", "{0:4}:4:2"),
    "CUBLAS_WORKSPACE_CONFIG": (":4096:8", ":4096:8"),
    "PYTORCH_CUDA_ALLOC_CONF": ("expandable_segments:True,max_split_size_mb:128",) * 2,
    "LD_PRELOAD": (".../libtcmalloc.so.4", ".../libtcmalloc.so.4"),
    "GLIBC_TUNABLES": ("glibc.malloc.arena_max=1:glibc.pthread.rseq=0",) * 2,
    "TF_XLA_FLAGS": ("--tf_xla_auto_jit=2 --tf_xla_dump=gs://secret/x", "--tf_xla_auto_jit=2 <left out>"),
    "XLA_FLAGS": ("--xla_gpu_autotune_level=2 --token=hf_Secret --xla_gpu_x=ghp_Secret --xla_dump_to=s3://secret",
                  "--xla_gpu_autotune_level=2 <left out> <left out> <left out>"),
    "TORCHDYNAMO_DISABLE": ("1", "1"),
    "NCCL_IB_DISABLE": ("fe80::1", "<left out>"),
    "MKL_NUM_THREADS": ("0000:3b:00.0", "<left out>"),
    "TF_NUM_INTEROP_THREADS": ("10.0.0.1", "<left out>"),
    "JAX_PLATFORMS": ("secret-machine", "<left out>"),
    "NCCL_ALGO": ("Ring,Tree", "Ring,Tree"),
    "TF_DB_PASS": ("secret", None),
    "JAX_PROXY_AUTH": ("secret", None),
    "XLA_SECRET_PROJECT": ("1", None),
    "TORCH_BUCKET": ("s3://secret/x", None),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIABLES)
def test_known_variables_leave_the_machine_with_words_of_a_known_form(name: str) -> None:
    value, sent = VARIABLES[name]
    made = public(line(environment={"variables": {name: value}}), hidden())
    assert made["environment"]["variables"].get(name) == sent
    named = public(line(environment={"variables": {name: value}}), hidden(), named=[name])
    assert named["environment"]["variables"] == {name: value}


def test_what_the_suite_itself_sets_is_known() -> None:
    cells = [Cell("imdb_lstm", name, threads=4, tuning=tuning) for name in FRAMEWORKS for tuning in TUNINGS]
    ours = [variables_of(cell) | host_memory(cell) for cell in cells]
    ours += [dict(chosen) for by_allocator in CHOSEN_BY.values() for chosen in by_allocator.values()]
    for name, value in (item for each in ours for item in each.items()):
        assert public_value(name, redact(value)) == redact(value), name


#: Words of a text, and whether they leave the machine.
SAID = {
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.1 GiB)": True,
    "jax cannot be imported (No module named 'jax')": True,
    "killed by signal 9 (SIGKILL)": True,
    "RESOURCE_EXHAUSTED: batch 4096": True,
    "NVIDIA H100 80GB HBM3, driver 570.86.15": True,
    "torch.compile breaks its graph at nn.LSTM": True,
    "s3://secret/x": False,
    "gs://secret(a)": False,
    "2001:db8::1": False,
    "fe80::1%eth0": False,
    "0000:3b:00.0": False,
    "00:1a:2b:3c:4d:5e": False,
    "10.0.0.1:8080": False,
    "hf_AbCdEfGhIj": False,
    "token=secret": False,
    "node17.cluster.example.org": False,
    "alice@example.org": False,
    UUID: False,
    "/mnt/alice/x": False,
    "xalicey": False,
    "Alice-Thinkpad": False,
    "frontier": False,
    "Frontier": False,
}


@pytest.mark.parametrize("words", SAID)
def test_words_of_a_known_form_alone_leave_the_machine(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    made = public(line(outcome={"status": "error", "reason": f"Failed: {words}, again"}), hidden())
    assert (made["outcome"]["reason"] == f"Failed: {words}, again") == SAID[words]
    assert SAID[words] or made["outcome"]["reason"] in ("Failed: <name> again", "Failed: <name>, again")


@pytest.mark.parametrize(
    "text", ["data of xalicey", "s3://bucket/x", "at 2001:db8::1", "0000:3b:00.0", "bob@example.org"]
)
def test_what_no_digest_lets_be_changed_stops_the_command(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "alice")
    assert list(names_in([{"data": {"name": text}}]))
    assert not list(names_in([{"alice": {"name": "data of xalicey"}}])), "a word of the suite's own tells nothing"


def test_redacting_leaves_out_more_and_breaks_no_digest(tmp_path: Path) -> None:
    kept(tmp_path)
    made = contents(tmp_path / "journals" / "run-a.jsonl", tmp_path, redacted=True, look=False)
    held = texts([made.about.run, made.lines])
    assert "not jax" not in held
    assert made.about.run["typed"] == {"k": "left out"}
    write(tmp_path / "a.bundle", made.about, made.lines)
    assert {answer.rule.name: answer.kind for answer in verify(tmp_path / "a.bundle")}["chain"] == "passed"


def test_names_that_are_left_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "workstation-7")
    assert not [*names_in([{"a": ["all is well"]}])]
    (words,) = names_in([{"a": {"b": ["at workstation-7"]}}])
    assert words == "the host's name 'workstation-7' in b"


def test_the_bundle_has_the_journal_and_compares_to_the_same_figures(tmp_path: Path) -> None:
    path = kept(tmp_path)
    made = contents(path, tmp_path / "journals", look=False)
    assert made.about.journal
    assert all(BEFORE in each["run"] for each in made.lines[1:])
    write(tmp_path / "a.bundle", made.about, made.lines)
    stored, bundled = ([launch.record for launch in load([each]).launches] for each in (path, tmp_path / "a.bundle"))
    assert [each.phases for each in stored] == [each.phases for each in bundled]
    assert UUID not in (tmp_path / "a.bundle").read_bytes().decode("latin-1")
    assert UUID not in texts([each.to_json() for each in bundled])


def test_a_run_without_its_journal_says_so(tmp_path: Path) -> None:
    made = contents(kept(tmp_path), tmp_path / "nowhere", look=False)
    assert not made.about.journal
    assert "without their order" in made.notes[0]


def test_a_journal_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    path = kept(tmp_path)
    with (tmp_path / "journals" / "run-a.jsonl").open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    assert not contents(path, tmp_path / "journals", look=False).about.journal


def test_a_bundle_is_not_bundled_again(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is a bundle already"):
        contents(tmp_path / "a.bundle", tmp_path, look=False)


def test_a_file_of_two_runs_makes_no_bundle(tmp_path: Path) -> None:
    held = [records.record(), records.record(run="run-b")]
    held[1] = replace(held[1], run=held[1].run | {"id": "run-b"})
    with pytest.raises(LoadError, match="several runs"):
        contents(records.save(tmp_path / "a.json", held), tmp_path, look=False)


def test_the_same_content_gives_the_same_bytes_and_no_file_is_replaced(tmp_path: Path) -> None:
    made = contents(kept(tmp_path), tmp_path / "nowhere", redacted=True, look=False)
    lines = [public(each, lambda name: name) for each in made.lines]
    for name in "ab":
        write(tmp_path / name, made.about, lines)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(FileExistsError):
        write(tmp_path / "a", made.about, lines)


def test_what_would_be_too_large_is_not_written(tmp_path: Path) -> None:
    made = contents(kept(tmp_path), tmp_path / "nowhere", redacted=True, look=False)
    with pytest.raises(BundleError, match=r"launches\.jsonl would have"):
        write(tmp_path / "a", made.about, [{"run": {"a": "b" * (65 << 20)}}])
    assert not (tmp_path / "a").exists()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the command for a run in a folder, on a machine whose doctor and frameworks are not asked."""
    from suite.submit import contents as module

    monkeypatch.setattr(module, "_doctor", lambda: iter(["ok: machine: fine"]))
    monkeypatch.setattr(module, "_find_installed", lambda _: iter([]))
    kept(tmp_path)
    folders = {"--storage": "runs", "--journals": "journals", "--output": "o"}
    return [word for option, name in folders.items() for word in (option, str(tmp_path / name))]


def test_the_preview_shows_the_values_that_go_and_the_names_that_stay(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"variables": {"OMP_NUM_THREADS": "4", "TF_MINE": "s3cret"}}
    made = [replace(each, environment=each.environment | variables) for each in records.launches(n=2)]
    (tmp_path / "journals" / "run-a.jsonl").unlink()
    records.save(tmp_path / "runs" / "0001_smoke.json", made)
    assert main(command) == 1
    assert "OMP_NUM_THREADS=4" in (shown := capsys.readouterr().out)
    assert "variables that are left out: TF_MINE; --variable NAME sends one" in shown
    assert "s3cret" not in shown
    assert main([*command, "--variable", "TF_MINE"]) == 1
    assert "TF_MINE=s3cret" in capsys.readouterr().out


@pytest.mark.parametrize("keys", [None, b"", b"n\n", b"\xff\n"], ids=["closed", "ctrl-d", "no", "no-text"])
def test_nothing_is_written_without_a_yes(
    keys: bytes | None, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    stdin = None if keys is None else io.TextIOWrapper(io.BytesIO(keys), errors="replace")
    monkeypatch.setattr(stdin, "isatty", lambda: True) if stdin else None
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(command) == 1
    printed = capsys.readouterr()
    assert "nothing was written" in printed.err
    assert "Example CPU 3000, 8 cores" in printed.out
    assert not (tmp_path / "o").exists()


def test_a_yes_writes_one_file_that_says_what_it_is(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--yes", "--price-hour", "2.5"]) == 0
    (path,) = (tmp_path / "o").iterdir()
    assert path.name == f"example-cpu-3000-8-cores-run-a{SUFFIX}"
    assert read(path).about.price_hour == 2.5
    assert f"training-suite verify {path}" in capsys.readouterr().out
    assert main([*command, "--yes"]) == 2
    assert "File exists" in capsys.readouterr().err


def test_a_name_that_is_left_stops_the_command(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Example")
    assert main([*command, "--yes"]) == 2
    assert "the host's name 'Example'" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_a_bundle_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.bundle").write_bytes(b"PK\x03\x04nonsense")
    with pytest.raises(LoadError, match=r"is no bundle: [^\n]+suite.verify"):
        load([tmp_path / "a.bundle"])
    assert verify(tmp_path / "a.bundle")[0].kind == FAILED
