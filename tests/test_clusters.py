"""The batch scripts, manifests and Containerfiles in ``clusters``: they are valid, agree, and name what exists."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from suite import __version__
from suite.plan.cell import FRAMEWORKS
from suite.plan.matrix import MATRICES
from tests.documents import ROOT

CLUSTERS = ROOT / "clusters"
SCRIPTS = sorted(CLUSTERS.glob("slurm/*.sbatch"))
MANIFESTS = sorted(CLUSTERS.glob("kubernetes/*.yaml"))
CONTAINERS = sorted(CLUSTERS.glob("containers/Containerfile.*"))

NOT_INSTALLED = "kubernetes-validate is not installed (tox run -e clusters)"


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra clusters-test)")
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def templates(each: dict[str, Any]) -> list[dict[str, Any]]:
    """The templates of the pods that an object makes."""
    if each["kind"] == "RayJob":
        cluster = each["spec"]["rayClusterSpec"]
        return [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    return [each["spec"]["template"]] if each["kind"] == "Job" else []


def pods(path: Path) -> list[dict[str, Any]]:
    return [template["spec"] for each in documents(path) for template in templates(each)]


def containers(path: Path) -> list[dict[str, Any]]:
    """All containers of a manifest's jobs, those that get the data ready among them."""
    return [one for spec in pods(path) for one in [*spec["containers"], *spec.get("initContainers", [])]]


def words(container: dict[str, Any]) -> list[str]:
    """What a container runs, without a shell around it."""
    said = [*container["command"], *container.get("args", [])]
    return shlex.split(said[2].removeprefix("exec ")) if said[0] == "/bin/sh" else said


def collected(arguments: list[str]) -> None:
    """Pytest understands the options and finds launches."""
    command = ["pytest", *arguments, "--collect-only", "-q", "-p", "no:cacheprovider"]
    left = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SLURM"))}
    done = subprocess.run(command, cwd=ROOT, env=left, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_training[" in done.stdout


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_what_kubernetes_accepts(path: Path) -> None:
    kubernetes = pytest.importorskip("kubernetes_validate", reason=NOT_INSTALLED)
    for each in documents(path):
        parts = [each]
        if each["kind"] == "RayJob":
            pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "of-a-group"}}
            parts = [pod | {"template": template} for template in templates(each)]
        for part in parts:
            kubernetes.validate(part, kubernetes.latest_version(), strict=True)


def test_the_ray_job_is_what_kuberay_accepts() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (extra test)")
    schema = json.loads((ROOT / "tests" / "golden" / "rayjob.schema.json").read_text())
    (job,) = (each for each in documents(CLUSTERS / "kubernetes" / "rayjob.yaml") if each["kind"] == "RayJob")
    jsonschema.validate(job, schema)
    job["spec"]["rayClusterSpec"]["headGroupSpecs"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, schema)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_pods_have_no_rights_no_token_and_nothing_of_their_node(path: Path) -> None:
    for spec in pods(path):
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    for container in containers(path):
        own = container["securityContext"]
        assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
        assert own["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_network_policy_selects_every_pod(path: Path) -> None:
    found = documents(path)
    (policy,) = (each["spec"] for each in found if each["kind"] == "NetworkPolicy")
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert all("from" in rule for rule in policy["ingress"])
    for template in (each for document in found for each in templates(document)):
        assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_what_pods_run_exists(path: Path) -> None:
    for container in containers(path):
        assert container["image"].endswith(f":{__version__}")
        if "command" in container:  # KubeRay starts the others
            command = words(container)
            assert command[0] == "/opt/controller/bin/python"
            assert importlib.util.find_spec(command[command.index("-m") + 1])
    for spec in pods(path):
        volumes = {each["name"] for each in spec["volumes"]}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            mounted = {each["name"] for each in container["volumeMounts"]}
            assert "scratch" in mounted
            assert mounted <= volumes


def entrypoint() -> list[str]:
    """What the head of the Ray cluster runs."""
    (job,) = (each for each in documents(CLUSTERS / "kubernetes" / "rayjob.yaml") if each["kind"] == "RayJob")
    assert f"ray[client]=={job['spec']['rayClusterSpec']['rayVersion']}" in (ROOT / "pyproject.toml").read_text()
    return shlex.split(job["spec"]["entrypoint"])


def test_the_head_runs_pytest_on_ray() -> None:
    assert entrypoint()[:4] == ["/opt/controller/bin/python", "-m", "pytest", "suite"]
    assert "--on=ray" in entrypoint()


@pytest.mark.slow
@pytest.mark.launches
def test_pytest_understands_what_pods_and_scripts_ask_of_it(tmp_path: Path) -> None:
    for path in MANIFESTS:
        for container in containers(path):
            if "command" in container and "pytest" in (command := words(container)):
                asked = [each.replace("$((JOB_COMPLETION_INDEX + 1))", "1") for each in command[3:]]
                collected([each.replace("--device=cuda", "--device=cpu").replace("cuda", "cpu") for each in asked])
    collected([each.replace("cuda", "cpu") for each in entrypoint()[3:]])
    collected(said_by("cell", tmp_path)[2:])
    collected(said_by("matrix", tmp_path)[2:])


def said_by(name: str, folder: Path) -> list[str]:
    """What a batch script runs at its end, where srun and Python only say what they were asked."""
    (folder / "srun").write_text("#!/bin/sh\n")
    (folder / "srun").chmod(0o755)
    given = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHON": "/bin/echo", "HOME": str(folder),
        "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_NUM_NODES": "2",
        "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2",
    }  # fmt: skip
    command = ["bash", str(CLUSTERS / "slurm" / f"{name}.sbatch"), "--devices", "1,2"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("name", ["cell", "matrix"])
def test_batch_scripts_run_the_suite_with_the_options_given(name: str, tmp_path: Path) -> None:
    said = said_by(name, tmp_path)
    assert said[:3] == ["-m", "pytest", "suite"]
    assert said[-2:] == ["--devices", "1,2"]
    assert ("--on" in said) == (name == "cell")
    assert ("--shard" in said) == (name == "matrix")


def test_a_shard_of_the_manifest_is_one_of_its_pods() -> None:
    (job,) = (each for each in documents(CLUSTERS / "kubernetes" / "matrix.yaml") if each["kind"] == "Job")
    (part,) = job["spec"]["template"]["spec"]["containers"]
    command = words(part)
    assert command[command.index("--shard") + 1].endswith(f"/{job['spec']['completions']}")
    assert command[command.index("--matrix") + 1] in MATRICES


@pytest.mark.parametrize("path", CONTAINERS, ids=lambda path: path.name)
def test_containerfiles_name_what_exists_and_say_that_they_were_not_built(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "nobody has built it yet" in " ".join(text.replace("\n#", "").split())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {name for extra in re.findall(r'-e "\.\[(.*?)\]"', text) for name in extra.split(",")}
    asked = {
        name.replace("$name", framework).replace("$KIND", kind)
        for name in asked for framework in FRAMEWORKS for kind in ("cpu", "cuda")
    }  # fmt: skip
    assert asked <= extras.keys()
    instructions = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    known = {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "CMD"}
    assert {line.split()[0] for line in instructions} <= known
    for line in instructions:
        if line.startswith("COPY ") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
    for tag in re.findall(r"training-suite\S*?:(\d[\d.]*\d)", text):
        assert tag == __version__
    name = path.suffix[1:]
    if name in FRAMEWORKS:
        assert f"SUITE_PYTHON_{name.upper()}=/opt/{name}/bin/python" in text


def test_there_is_a_containerfile_for_each_framework_and_the_controller_has_all() -> None:
    assert {path.suffix[1:] for path in CONTAINERS} == {*FRAMEWORKS, "controller", "all"}
    text = (CLUSTERS / "containers" / "Containerfile.controller").read_text()
    for name in FRAMEWORKS:
        assert f"COPY --from={name} /opt/{name} /opt/{name}" in text
        assert f"SUITE_PYTHON_{name.upper()}=/opt/{name}/bin/python" in text
    alone = (CLUSTERS / "containers" / "Containerfile.all").read_text()
    assert f"for name in {' '.join(FRAMEWORKS)};" in alone
    assert all("\nUSER 65532:65532\n" in each for each in (text, alone))
    assert not [one for one, next_ in pairwise(text.splitlines()) if one.endswith("\\") and not next_.strip()]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_batch_scripts_are_bash(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "#SBATCH --exclusive" in path.read_text()
