"""The release of a framework as a setting: cells without one are as they were, and lists are of a framework."""

from __future__ import annotations

import pytest

from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import is_open, version_key
from suite.plan.cell import Cell, CellError
from suite.plan.matrix import Matrix, MatrixError
from suite.plan.settings.frameworks import interpreter_variable, too_old
from suite.plan.sweeps.sweep import describe_axes, parse_values, swept, usual
from tests.documents import ROOT

ORDER = ["0.6", "0.9.0.dev20260101", "0.9.0a1", "0.9.0rc1", "0.9.0", "0.9.0.post1", "0.9.0.1", "0.9.2", "0.10.0", "1.0"]


def sweep(**texts: str) -> Matrix:
    return swept(usual(gpu=False), {axis: parse_values(axis, text) for axis, text in texts.items()})


def test_another_framework_has_no_release_of_this_one() -> None:
    assert Cell("imdb_lstm", "jax", release="0.9.2").but(framework="pytorch").release == ""


@pytest.mark.parametrize("release", ["newest", "0.9.*", "0.9.2; evil", "../0.9", "0.9.2+cpu", "-e", "9" * 20, 1, None])
def test_what_is_no_version_is_refused(release: str) -> None:
    with pytest.raises(CellError):
        Cell.from_json(Cell("imdb_lstm", "jax").to_json() | {"release": release})


def test_versions_are_in_their_order() -> None:
    assert sorted(set(ORDER), key=version_key) == ORDER
    assert version_key("0.9") == version_key("0.9.0")


def test_releases_are_of_the_framework_before_them_and_measured_alone() -> None:
    found = sweep(workload="imdb_lstm", release="jax=0.9.2,0.10.2,pytorch=2.13.0,installed")
    assert [(cell.framework, cell.release) for cell in found.cells] == [
        ("jax", "0.9.2"), ("jax", "0.10.2"), ("pytorch", "2.13.0"), ("pytorch", ""),
    ]  # fmt: skip
    assert found.name == "sweep-imdb_lstm-jax-0.9.2+jax-0.10.2+pytorch-2.13.0+pytorch-installed"


def test_frameworks_that_are_named_stay_beside_the_releases_of_another() -> None:
    found = sweep(workload="imdb_lstm", framework="pytorch,jax", release="jax=0.9.2")
    assert [(cell.framework, cell.release) for cell in found.cells] == [("pytorch", ""), ("jax", "0.9.2")]


def test_axes_as_text_can_be_typed_again() -> None:
    axes = {"release": parse_values("release", "jax=0.9.2,0.10.2")}
    assert describe_axes(axes) == "release jax=0.9.2,jax=0.10.2"
    assert parse_values("release", describe_axes(axes).split()[1]) == axes["release"]


@pytest.mark.parametrize(("axes", "words"), [
    ({"release": "0.9.2"}, "begin with a framework, such as jax=0.9.2"),
    ({"release": "jaxx=0.9.2"}, "did you mean 'jax'"),
    ({"release": "jax=x"}, "write a version"),
    ({"release": "jax=newest"}, "name it in the option --release, or write a version"),
    ({"release": "jax=0.9.2", "framework": "pytorch"}, "add it to --framework"),
])  # fmt: skip
def test_a_wrong_list_is_refused_in_one_line(axes: dict[str, str], words: str) -> None:
    with pytest.raises(MatrixError, match=words) as caught:
        sweep(**axes)
    assert "\n" not in str(caught.value)


def test_open_releases_are_known() -> None:
    assert all(map(is_open, ("newest", "0.9.*", "2.*")))
    assert not any(map(is_open, ("0.9.2", "*", "installed", "0.*.1")))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_framework_says_its_oldest_release_in_one_place(framework: str) -> None:
    oldest = FRAMEWORKS[framework].oldest
    assert too_old(framework, oldest) == ""
    assert too_old(framework, "") == ""
    assert (
        too_old(framework, "0.0.1")
        == f"{framework} 0.0.1 is older than {oldest}, the oldest release that the suite supports"
    )


def test_the_documentation_names_the_oldest_releases() -> None:
    text = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    names = [f"{each.title} {each.oldest}" for each in FRAMEWORKS.values()]
    assert f"{', '.join(names[:-1])} and {names[-1]} are the oldest that are supported" in text


def test_each_release_has_a_variable_for_its_interpreter() -> None:
    assert interpreter_variable("jax") == "SUITE_PYTHON_JAX"
    assert interpreter_variable("jax", "0.9.2") == "SUITE_PYTHON_JAX_0_9_2"
