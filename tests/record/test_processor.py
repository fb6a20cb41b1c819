"""What a record says of a processor, from the files that Linux has of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.record.parts import environment
from suite.record.parts.environment import describe_processor, machine

EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC
stepping\t: 1
siblings\t: 2
cpu cores\t: 1
flags\t\t: fpu sse2 avx avx2 fma {flags}

processor\t: 1
model name\t: of another core
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd40
CPU revision\t: 1
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the files of a system, which has none yet."""
    for name in ("CPUINFO", "CACHES", "XEN", "VENDOR"):
        monkeypatch.setattr(environment, name, tmp_path / name)
    yield tmp_path
    describe_processor.cache_clear()


def described(system: Path, cpuinfo: str) -> dict[str, Any]:
    (system / "CPUINFO").write_text(cpuinfo)
    describe_processor.cache_clear()
    return describe_processor()


def test_the_generation_caches_and_instructions_of_an_x86_processor_are_recorded(system: Path) -> None:
    for index, texts in enumerate((("1", "Data", "32K"), ("1", "Instruction", "32K"), ("3", "Unified", "32M"))):
        folder = system / "CACHES" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in zip(("level", "type", "size"), texts, strict=True):
            (folder / name).write_text(f"{text}\n")
    (system / "VENDOR").write_text("Example Cloud\n")
    found = described(system, EPYC.format(flags="hypervisor"))
    assert len(found.pop("instructions")) == 12
    assert found == {
        "cpu": "AMD EPYC", "vendor": "AuthenticAMD", "family": 25, "model": 1, "stepping": 1, "simd": "avx2",
        "caches": {"L1d": 2**15, "L1i": 2**15, "L3": 2**25}, "threads_per_core": 2, "hypervisor": "Example Cloud",
    }  # fmt: skip


def test_instructions_tell_processors_apart_and_a_kernel_s_own_flags_do_not(system: Path) -> None:
    plain = described(system, EPYC.format(flags="ibpb_no_ret"))
    newer_kernel = described(system, EPYC.format(flags="ibpb_no_ret spec_something tsc_adjust"))
    wider = described(system, EPYC.format(flags="avx512f avx512bw"))
    assert plain == newer_kernel
    assert plain["hypervisor"] == ""
    assert (plain["simd"], wider["simd"]) == ("avx2", "avx512")
    assert plain["instructions"] != wider["instructions"]


def test_a_processor_of_arm_has_the_same_facts_by_other_names(system: Path) -> None:
    found = described(system, ARM)
    assert {name: found[name] for name in ("vendor", "family", "model", "stepping", "simd")} == {
        "vendor": "0x41", "family": 8, "model": "0xd40", "stepping": 1, "simd": "sve",
    }  # fmt: skip
    assert found["instructions"] != described(system, ARM.replace(" sve", ""))["instructions"]


def test_a_system_that_shows_nothing_has_a_name_alone(system: Path) -> None:
    describe_processor.cache_clear()
    assert describe_processor().keys() == {"cpu"}


def test_the_machine_of_this_test_is_described_in_little_time_and_room() -> None:
    describe_processor.cache_clear()
    start_s = time.perf_counter()
    found = machine()
    assert time.perf_counter() - start_s < 0.05, "0.8 ms where nothing else runs"
    assert len(json.dumps(found)) < 600
