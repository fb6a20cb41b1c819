"""`training-suite doctor`: each trouble is found and comes with its mend."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.doctor import __main__ as command
from suite.doctor import checks, probes
from suite.doctor.checks import BAD, NOTE, OK, WARNING, Finding, card, data, frameworks, placement
from suite.doctor.probes import FAILED, NOT_INSTALLED
from suite.monitor.background import Background
from suite.monitor.gpu import Driver, open_nvml
from suite.plan.cell import FRAMEWORKS, PRECISIONS
from tests.frameworks import needs_frameworks
from tests.nvml import Nvml

ROOT = Path(__file__).parents[2]
DRIVER = Driver("580.1", "13.0")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else runs here, which takes a second to measure."""
    monkeypatch.setattr(checks, "measure", lambda: Background(0.0, 2))


def installed(**changes: Any) -> dict[str, Any]:
    """What a CUDA build says of itself on a machine with a GPU."""
    devices = [{"name": "A GPU", "compute_capability": "9.0"}]
    made = {"version": "1.0", "cuda": "12.9", "cudnn": "91000", "devices": devices, "precisions": {"fp32": ""}}
    return made | changes


def status(findings: list[Finding], area: str) -> str:
    """The worst of an area."""
    return max((f.status for f in findings if f.area == area), key=[OK, NOTE, WARNING, BAD].index)


@pytest.mark.parametrize(("changes", "worst", "words"), [
    ({}, OK, "A GPU (9.0); fp32"),
    ({"cuda": None}, BAD, "built without CUDA"),
    ({"cuda": "14.0"}, BAD, "driver 580.1 runs up to CUDA 13.0"),
    ({"devices": []}, BAD, "sees no GPU"),
    ({"cudnn": None}, WARNING, "cuDNN for CUDA 12.9 was not found"),
    ({"bytecode": False}, NOTE, "unset PYTHONDONTWRITEBYTECODE"),
])  # fmt: skip
def test_a_framework_must_fit_the_driver(changes: dict[str, Any], worst: str, words: str) -> None:
    findings = list(frameworks({"jax": installed(**changes)}, DRIVER))
    assert status(findings, "jax") == worst
    assert words in "\n".join(map(str, findings))
    assert all(finding.mend for finding in findings if finding.status == BAD)


def test_a_package_is_compiled_or_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "planted_package" / "__init__.py"
    package.parent.mkdir()
    package.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not probes._is_compiled("planted_package")
    py_compile.compile(str(package))
    assert probes._is_compiled("planted_package")


def test_a_missing_framework_is_a_warning_until_all_are_missing() -> None:
    lacking = {"lack": NOT_INSTALLED, "error": "is not installed (no module named torch)"}
    findings = list(frameworks({"pytorch": lacking, "jax": installed(cuda=None, devices=[])}, None))
    assert status(findings, "pytorch") == WARNING
    assert "SUITE_PYTHON_PYTORCH" in "\n".join(map(str, findings))
    assert BAD not in [finding.status for finding in findings]
    assert status(list(frameworks({"pytorch": lacking}, None)), "frameworks") == BAD


def test_what_stands_in_the_way_on_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml()
    with open_nvml(nvml) as (_, (gpu, _)):
        assert status(list(card(gpu)), "GPU") == NOTE, "the stand-in has no memory temperature"
        assert "persistence mode on, MIG off, GPM answers" in "\n".join(map(str, card(gpu)))
        nvml.broken = {"nvmlDeviceGetComputeRunningProcesses"}
        assert "no processes: Not Supported" in "\n".join(map(str, card(gpu))), "and the driver is still there"
        nvml.broken = set()
        nvml.mig, nvml.persistent, nvml.gpm, nvml.pids = True, False, False, [4321]
    with open_nvml(nvml) as (_, (gpu, _)):
        text = "\n".join(map(str, card(gpu)))
    for words in ("MIG is on", "nvidia-smi -pm 1", "1 other process", "no gpm: the device has no GPM"):
        assert words in text


def test_a_placement_that_costs_bandwidth_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml()
    with open_nvml(nvml) as (_, cards):
        good = list(placement(cards))
        assert [finding.status for finding in good] == [OK] * 3
        assert "GPU 0 to GPU 1: NVLink" in "\n".join(map(str, good))
        nvml.pcie |= {"CurrPcieLinkGeneration": 1}
        idle = list(placement(cards))
        assert status(idle, "links") == NOTE, "an idle GPU lowers its link, which is no fault"
        nvml.pcie |= {"CurrPcieLinkWidth": 4, "MaxPcieLinkGeneration": 4}
        nvml.nvlinks, nvml.nodes, nvml.topology = [], [0, 1], 50
        bad = list(placement(cards))
        nvml.broken = {f"nvmlDeviceGet{name}" for name in (*nvml.pcie, "MemoryAffinity", "TopologyCommonAncestor")}
        assert list(placement(cards)) == [], "nothing is guessed"
    text = "\n".join(map(str, bad))
    for words in ("4 of 16 lanes", "its slot offers PCIe 4.0", "through two NUMA nodes, so", "NUMA node 1"):
        assert words in text
    assert all(finding.mend for finding in bad if finding.status != OK)


def test_devices_that_are_all_hidden_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "open_nvml", lambda: open_nvml(Nvml()))
    for chosen in ("", "MIG-12345678"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        driver, findings, described = checks.gpus()
        assert (driver, described, status(findings, "GPU")) == (None, [], WARNING)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    driver, _, (described,) = checks.gpus()
    assert driver
    assert described["uuid"] == "GPU-bbbb"


def test_a_full_disk_and_a_closed_cache_keep_a_machine_from_measuring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "new" / "cache"))
    monkeypatch.delenv("SUITE_DATA_DIR", raising=False)
    findings = list(data(None))
    assert status(findings, "data") == NOTE
    assert "training-suite data fetch" in "\n".join(map(str, findings))
    monkeypatch.setattr(checks, "ROOM_BYTES", 1 << 60)
    assert status(list(data(None)), "data") == BAD
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "SUITE_CACHE_DIR" in "\n".join(str(finding) for finding in data(None))
    monkeypatch.setattr(checks, "folder_of", lambda *_: tmp_path)
    assert status(list(data(None)), "data") == OK, "what is cached needs no room"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Interpreters that answer nothing."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    for framework in FRAMEWORKS:
        monkeypatch.setenv(f"SUITE_PYTHON_{framework.upper()}", str(python))


@pytest.mark.usefixtures("silent")
def test_a_framework_that_does_not_answer_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--wait", "0.5"]) == 1
    told = capsys.readouterr()
    for framework in FRAMEWORKS:
        assert f"{framework} gave no answer within 0.5 s" in " ".join(told.out.split())
        assert f"{framework}: no answer after " in told.err
    assert "not installed" not in told.out
    assert "pip install" not in told.out, "installing what is there would not help"
    assert "nothing to measure" not in told.out
    assert told.out.count("--wait 2.5") == len(FRAMEWORKS) + 1
    assert told.err.startswith("asking pytorch, tensorflow, jax, up to 0.5 s each\n")


def test_a_framework_that_is_not_installed_is_no_silent_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"pytorch": {"lack": NOT_INSTALLED, "error": "is not installed (no module named torch)"}}
    answers |= {"tensorflow": {"lack": FAILED, "error": "suite.doctor failed for tensorflow: ImportError: libcudart"}}
    monkeypatch.setattr(probes, "answer_of", lambda name, _: answers.get(name) or installed(cuda=None, devices=[]))
    assert command.main(["--wait", "5"]) == 0
    told = capsys.readouterr()
    assert "pytorch is not installed (no module named torch)" in " ".join(told.out.split())
    assert "pip install -e '.[pytorch-cpu]'" in told.out
    assert "pip install --force-reinstall -e '.[tensorflow-cpu]'" in told.out
    assert "pytorch: not installed after 0." in told.err
    assert "jax: answered after 0." in told.err


def test_an_interpreter_without_the_framework_answers_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(probes, "import_framework", missing)
    answer = probes.installation("pytorch")
    assert answer == {"lack": NOT_INSTALLED, "error": "is not installed (no module named torch)"}


@needs_frameworks("jax")
def test_a_variable_that_hides_all_devices_is_no_broken_installation() -> None:
    code = "import json; from suite.doctor.probes import installation; print(json.dumps(installation('jax')))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cuda", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["error"] == "JAX_PLATFORMS is 'cuda', and JAX finds no such device here"
    (finding, *_) = frameworks({"jax": answer}, None)
    assert (finding.status, finding.mend) == (WARNING, "unset it")


def test_an_accelerator_that_the_suite_does_not_support_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what the framework itself finds, as a launch asks it."""

    class Framework:
        def other_accelerator(self) -> str:
            return "ROCm (AMD Instinct MI300X)"

        def installation(self) -> dict[str, Any]:
            return installed(
                cuda=None, cudnn=None, version="2.13.0+rocm7", devices=[{"name": "MI300X", "compute_capability": "9.4"}]
            )

        def prepare(self, cell: Any, device: str, seed: int) -> None:
            assert device == "cpu", "which alone is measured"

    monkeypatch.setattr(probes, "import_framework", lambda _: Framework())
    answer = probes.installation("pytorch")
    assert answer["other"] == "ROCm (AMD Instinct MI300X)"
    monkeypatch.setattr(probes, "answer_of", lambda *_: answer)
    assert command.main(["--wait", "5"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "pytorch 2.13.0+rocm7; on CPU; fp32" in told
    assert "finds ROCm (AMD Instinct MI300X), which the suite does not support yet" in told
    assert "--device cpu measures the CPU" in told


def test_findings_are_shown_whole_in_a_pipe_with_rich_and_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Finding("machine", OK, "8 cores"), Finding("data", BAD, "no room " + "x" * 200, "make [red]room[/red]")]
    command.show(found)
    with_rich = capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "suite.report.format.terminal", None)
    command.show(found)
    for text in (with_rich, capsys.readouterr().out):
        assert [line.split() for line in text.splitlines()] == [
            ["machine", "8", "cores"],
            ["!!", "data", "no", "room", "x" * 200],
            ["->", "make", "[red]room[/red]"],
        ]


@needs_frameworks
@pytest.mark.slow
def test_the_command_says_what_this_machine_can_measure_and_leaves_out_nothing() -> None:
    # A machine that reads three frameworks from a cold disk, beside other work, may take longer than the usual wait.
    command = [sys.executable, "-m", "suite.doctor", "--json", "--wait", "100"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["frameworks"].keys() == set(FRAMEWORKS)
    for name, found in told["frameworks"].items():
        assert "error" not in found, name
        assert found["precisions"].keys() == set(PRECISIONS)
        assert found["precisions"]["fp32"] == ""
        assert "tensor cores" in found["precisions"]["tf32"]
    assert {finding["area"] for finding in told["findings"]} >= {"machine", "data", "GPU", *FRAMEWORKS}
    assert done.returncode == 0, told
