"""``python -m workloads.data``: what it prints and where, and its exit status."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from data_makers import put
from test_data_cache import change_a_byte
from test_data_prepare import ROOT, SOURCE, cache, data, names, no_network, real, small_twins  # noqa: F401 - fixtures

from workloads.data.__main__ import main
from workloads.data.cache import open_cached

# ruff: noqa: F811 - arguments named after imported fixtures


def test_command_fetch_verify_where(cache, capsys):
    base = ["--cache-dir", str(cache)]
    assert main(["where", *base]) == 0
    assert "imdb      not cached" in capsys.readouterr().out
    assert main(["verify", *base]) == 1
    assert "nothing is cached" in capsys.readouterr().err
    assert main(["fetch", "imdb", "--source", "synthetic", *base]) == 0
    line = capsys.readouterr().out
    assert "imdb      synthetic" in line
    assert str(cache / "imdb-synthetic-v1") in line
    assert main(["verify", *base]) == 0
    assert capsys.readouterr().out.endswith("verified\n")
    change_a_byte(cache / "imdb-synthetic-v1")
    assert main(["where", *base]) == 0
    assert open_cached(cache / "imdb-synthetic-v1").digest[:16] in capsys.readouterr().out
    assert main(["verify", *base]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_command_verify_knows_the_official_digests(real, cache, capsys):
    real()
    assert main(["verify", "--cache-dir", str(cache)]) == 1
    assert "is not the official cifar100" in capsys.readouterr().err


def test_command_fetch_without_real_data(cache, capsys):
    assert main(["fetch", "--cache-dir", str(cache)]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if ": downloading " not in line]
    assert [line.split(":")[0] for line in errors[::2]] == ["error", "error"]
    assert "synthetic twin of cifar100" in errors[1]
    assert "synthetic twin of imdb" in errors[3]
    assert main(["fetch", "--cache-dir", str(cache), "--source", "auto"]) == 0
    assert names(cache) == ["cifar100-synthetic-v1", "downloads", "imdb-synthetic-v1"]


def test_command_with_a_broken_source_goes_on_with_the_others(tmp_path, cache, capsys):
    put(tmp_path / "data" / SOURCE.archive.file, b"broken")
    assert main(["fetch", "--cache-dir", str(cache), "--data-dir", str(tmp_path / "data"), "--source", "auto"]) == 1
    output, errors = capsys.readouterr()
    assert "error: " in errors
    assert "synthetic twin of cifar100" not in errors
    assert output.startswith("imdb      synthetic")


@pytest.mark.parametrize("arguments", [[], ["fetch", "mnist"], ["fetch", "--source", "x"], ["other"]])
def test_command_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_command_help_teaches(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for part in ("examples:", "SUITE_DATA_DIR", "SUITE_CACHE_DIR", "exit status", "aclImdb_v1.tar.gz"):
        assert part in text


def test_command_interrupted(cache):
    # What starts the tests in the background may have them ignore SIGINT, and children inherit that.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from workloads.data.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "fetch", "cifar100", "--source", "synthetic", "--cache-dir", str(cache)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1, text=True)
    assert process.stderr is not None
    assert "generating" in process.stderr.readline()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.startswith("workloads.data: interrupted; ")
    assert len(errors.splitlines()) == 1
    assert output == ""
    assert names(cache) == []
