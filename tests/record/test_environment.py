from __future__ import annotations

import getpass
import json
import os
import socket
from pathlib import Path

import pytest

from suite.catalog.devices import has_gpu
from suite.record.parts import environment
from suite.record.parts.environment import core_limit, describe, machine, redact, select_variables, usable_cores
from suite.worker.loaders import tuned_workers


@pytest.fixture(autouse=True)
def known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(socket, "gethostname", lambda: "node7.lab.example")
    monkeypatch.setattr(Path, "home", lambda: Path("/people/lovelace"))


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ('File "/opt/py/lib/site-packages/jax/core.py", line 7', 'File ".../core.py", line 7'),
        ("no such file: '/data/ada/a b'", "no such file: '.../a b'"),
        ("--xla_dump_to=/scratch/ada/dump --xla_y=2", "--xla_dump_to=.../dump --xla_y=2"),
        ("/one/a.py:/two/b.py:/three/c.py", ".../a.py:.../b.py:.../c.py"),
        ("error:/srv/project/run.py", "error:.../run.py"),
        ("-I/srv/project/include", "-I.../include"),
        ("file:///srv/project/run.html", "file://.../run.html"),
        ("~/notes/plan.txt", ".../plan.txt"),
        ("(/usr/lib/libc.so+0x7)", "(.../libc.so+0x7)"),
        ("cwd is /people/lovelace", "cwd is ~"),
        ("/people/lovelace/x/y.py and /people/lovelaces", ".../y.py and .../lovelaces"),
        ("ada@node7.lab.example and node7, ada's", "<user>@<host> and <host>, <user>'s"),
        ("Canada, adamax, node77 and ada_x stay", "Canada, adamax, node77 and ada_x stay"),
        ("https://example.org/docs/page.html stays", "https://example.org/docs/page.html stays"),
        ("1/2 and a/b/c, ./here/x and ../there/x stay", "1/2 and a/b/c, ./here/x and ../there/x stay"),
        ("samples/s / step", "samples/s / step"),
        ("", ""),
    ],
)
def test_what_is_said_loses_directories_user_and_host_and_nothing_else(text: str, public: str) -> None:
    assert redact(text) == public


@pytest.mark.parametrize("error", [KeyError("uid"), OSError("no name")])
def test_a_user_without_a_name_is_no_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert redact("ada on node7") == "ada on <host>"


def test_of_the_environment_variables_only_those_that_change_results_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/scratch/ada/dump")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("SUITE_PYTHON_JAX", "/home/ada/bin/python")
    monkeypatch.setenv("API_TOKEN", "s3cret-s3cret")
    found = describe([])["variables"]
    assert "SUITE_PYTHON_JAX" not in found
    assert found["XLA_FLAGS"] == "--xla_dump_to=.../dump"
    assert found["OMP_NUM_THREADS"] == "2"
    assert "s3cret" not in json.dumps(describe([]))


def test_whatever_a_framework_or_a_library_reads_is_recorded_without_places_hosts_and_secrets() -> None:
    changing = (
        "ATEN_CPU_CAPABILITY", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "CUBLAS_WORKSPACE_CONFIG", "CUDNN_LOGDEST_DBG", "NCCL_ALGO", "XLA_CLIENT_MEM_FRACTION", "ONEDNN_MAX_CPU_ISA",
        "DNNL_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF", "TF_DETERMINISTIC_OPS",
        "KMP_AFFINITY", "MKL_CBWR", "OPENBLAS_NUM_THREADS", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE",
        "TORCHINDUCTOR_MAX_AUTOTUNE", "GOMP_CPU_AFFINITY", "NPROC", "PJRT_NPROC", "GLIBC_TUNABLES", "KERAS_FLOATX",
        "NUMEXPR_NUM_THREADS", "LIBTPU_INIT_ARGS", "TRITON_INTERPRET", "CUBLASLT_LOG_LEVEL", "PYTHON_CPU_COUNT",
        "PYTHONTRACEMALLOC", "PYTHONPERFSUPPORT", "HUGETLB_MORECORE", "LRU_CACHE_CAPACITY", "THP_MEM_ALLOC_ENABLE",
    )  # fmt: skip
    given = dict.fromkeys(changing, "1") | {"LD_PRELOAD": "/home/ada/lib/libtcmalloc.so"}
    places = (
        "CUDA_VISIBLE_DEVICES",
        "TF_CONFIG",
        "CUDA_HOME",
        "TORCH_HOME",
        "TORCHINDUCTOR_CACHE_DIR",
        "NVIDIA_VISIBLE_DEVICES",
    )
    private = ("JAX_COORDINATOR_ADDRESS", "TF_API_TOKEN", "TORCH_SECRET")
    found = select_variables(given | dict.fromkeys([*places, *private, "PATH", "HF_TOKEN"], "s3cret"))
    assert found.keys() == {*given, *private}
    assert found["LD_PRELOAD"] == ".../libtcmalloc.so"
    assert {found[name] for name in private} == {"<set>"}


def test_a_description_holds_versions_and_nothing_private() -> None:
    found = describe(["pytest", "no-such-distribution"])
    assert found["packages"].keys() == {"pytest", "numpy"}
    assert found["packages"]["pytest"] == pytest.__version__
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_bytes"] > 2**27
    assert len(found["digest"]) == 64
    assert found == describe(["pytest"]), "the same software has the same digest"
    text = json.dumps(found)
    for private in ("/people", "lovelace", "node7", str(Path.cwd())):
        assert private not in text


def test_hidden_gpus_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.Path, "exists", lambda _: True)
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert not has_gpu()
    for shown in ("0", "1,2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        assert has_gpu()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert has_gpu()


def test_a_wheel_is_known_by_any_spelling_of_its_name() -> None:
    packages = describe(["Pytest_Benchmark", "ml.dtypes-of-nobody"])["packages"]
    assert packages.keys() == {"Pytest_Benchmark", "numpy"}


def test_of_two_versions_on_the_path_the_one_that_is_imported_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, version in (("later", "9.0"), ("first", "2.0")):  # the last is first on the path
        folder = tmp_path / place / f"twice_installed-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: twice-installed\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path / place)
    environment.list_distributions.cache_clear()
    try:
        assert describe(["twice_installed"])["packages"]["twice_installed"] == "2.0"
    finally:
        environment.list_distributions.cache_clear()


V1 = "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/\n"


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Eight cores of sixteen, and control groups in an empty folder."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(environment, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(environment, "OWN_GROUPS", tmp_path / "own")


def groups(place: Path, own: str | None, files: dict[str, str]) -> None:
    """Control groups as Linux shows them: those of this process, and the files below where they are mounted."""
    if own is not None:
        (place / "own").write_text(own)
    for name, text in files.items():
        path = place / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("own", "files", "limit", "cores"),
    [
        (None, {}, None, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None, 8),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 64.0, 8),
        (None, {"cpu.max": "300000 100000\n"}, 3.0, 3),  # the process's own groups are not told
        # Nested groups: the tightest on the way to the root.
        ("0::/a/b\n", {"a/cpu.max": "max 100000", "a/b/cpu.max": "400000 100000"}, 4.0, 4),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "400000 100000"}, 3.0, 3),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "20000 10000"}, 2.0, 2),
        ("0::/a\n", {"a/cpu.max": "max 100000", "b/cpu.max": "100000 100000", "a/b/cpu.max": "1 1"}, None, 8),
        ("0::/../b\n", {"cpu.max": "500000 100000", "../b/cpu.max": "100000 100000"}, 5.0, 5),  # outside what is shown
        # A container that sees its own group as the root, though the kernel names its place on the host.
        ("0::/docker/123\n", {"cpu.max": "200000 100000"}, 2.0, 2),
        # Version 1, whose controllers are mounted one by one, and version 2 beside it.
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, None, 8),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "350000", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, 3.5, 3),
        (V1, {"cpu,cpuacct/a/cpu.cfs_quota_us": "200000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, 2.0, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "600000", "cpu/cpu.cfs_period_us": "100000"}, 6.0, 6),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "600000"}, None, 8),
        ("3:cpuset:/a\n", {"cpuset/a/cpu.cfs_quota_us": "100000", "cpuset/a/cpu.cfs_period_us": "100000"}, None, 8),
        ("0::/a\n", {"unified/a/cpu.max": "700000 100000"}, 7.0, 7),
        # What cannot be read as a quota is none.
        ("", {"cpu.max": ""}, None, 8),
        ("nonsense\n0::/\n", {"cpu.max": "200000 0"}, None, 8),
    ],
)
def test_the_tightest_of_affinity_and_quotas_counts(
    tmp_path: Path, own: str | None, files: dict[str, str], limit: float | None, cores: int
) -> None:
    groups(tmp_path, own, files)
    assert core_limit() == limit
    assert usable_cores() == cores
    assert machine()["cores"] == 8, "which a quota does not change"


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/a\n", {"a/io.max": "8:16 rbps=2097152 wbps=max riops=max wiops=120\n"}, 2097152),
        ("0::/a\n", {"a/io.max": "8:16 rbps=max wbps=1048576 riops=max wiops=max\n"}, None),
        ("0::/a/b\n", {"a/io.max": "8:0 rbps=4000 wbps=max\n8:16 rbps=3000\n", "a/b/io.max": "8:0 rbps=5000\n"}, 3000),
        ("5:blkio:/a\n", {"blkio/a/blkio.throttle.read_bps_device": "254:0 1000000\n"}, 1_000_000),
        ("5:blkio:/a\n", {"blkio/b/blkio.throttle.read_bps_device": "254:0 1000000\n"}, None),
        ("0::/\n", {}, None),
    ],
)
def test_a_limit_on_reading_is_part_of_the_machine(
    tmp_path: Path, own: str, files: dict[str, str], limit: int | None
) -> None:
    groups(tmp_path, own, files)
    assert machine().get("read_limit") == limit


@pytest.mark.usefixtures("eight_cores")
def test_a_system_without_affinity_has_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 16
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


@pytest.mark.usefixtures("eight_cores")
def test_a_tuned_loader_takes_half_of_the_cores_that_it_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tuned_workers("cuda") == 4
    groups(tmp_path, "0::/\n", {"cpu.max": "400000 100000"})
    assert tuned_workers("cuda") == 2
    groups(tmp_path, None, {"cpu.max": "50000 100000"})
    assert tuned_workers("cuda") == 1
    assert tuned_workers("cpu") == 0
    groups(tmp_path, None, {"cpu.max": "max 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert tuned_workers("cuda") == 8
