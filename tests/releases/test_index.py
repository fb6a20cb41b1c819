"""Which releases there are: the index' own list, what fits this machine, and what an open release stands for."""

from __future__ import annotations

import platform

import pytest

from suite.releases.__main__ import main
from suite.releases.index import Release, releases, resolve
from suite.releases.uv import ReleaseError

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-in's wheels are of that machine"),
]


def wheel(version: str, minor: int = 13, machine: str = "x86_64", **more: object) -> dict[str, object]:
    name = f"jaxlib-{version}-cp3{minor}-cp3{minor}-manylinux_2_17_{machine}.whl"
    return {"filename": name, "size": 80_000_000, "upload-time": "2026-01-02T03:04:05Z", **more}


FILES = [
    wheel("0.10.0"), wheel("0.10.0", 12), wheel("0.9.1"), wheel("0.9.0", 12), wheel("0.11.0", 14),
    wheel("0.12.0", machine="sparc"), wheel("0.10.1", yanked="broken"), wheel("0.10.2rc1"),
    wheel("0.9.2", **{"requires-python": ">=3.14"}), wheel("0.4.1"), {"filename": "jaxlib-0.1.tar.gz"}, {"size": 3},
]  # fmt: skip


def test_the_releases_that_the_suite_supports_are_listed_with_the_pythons_that_they_fit(
    served: dict[str, object],
) -> None:
    served["jaxlib"] = FILES
    assert [(each.version, each.minors) for each in releases("jax")] == [
        ("0.9.0", (12,)), ("0.9.1", (13,)), ("0.9.2", ()), ("0.10.0", (13, 12)), ("0.11.0", ()), ("0.12.0", ()),
    ]  # fmt: skip
    assert releases("jax")[1] == Release("0.9.1", (13,), 80_000_000, "2026-01-02")


def test_an_open_release_is_the_newest_that_fits(served: dict[str, object]) -> None:
    served["jaxlib"] = FILES
    assert resolve(["jax=newest", "jax=0.9.*", "jax=0.7.0", "jax=installed"]) == [
        "jax=0.10.0", "jax=0.9.1", "jax=0.7.0", "jax=installed",
    ]  # fmt: skip
    with pytest.raises(ReleaseError, match=r"no release jax=0\.8\.\* fits the Pythons here"):
        resolve(["jax=0.8.*"])


def test_an_exact_release_asks_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    assert resolve(["jax=0.9.2"]) == ["jax=0.9.2"]


@pytest.mark.parametrize(
    ("files", "words"),
    [(None, "does not answer (Not Found)"), ("<html>", "does not list its files as JSON"), ("[]", "as JSON")],
)
def test_an_index_that_does_not_say_is_one_line(
    files: object, words: str, served: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    served.update({"jaxlib": files} if files else {})
    assert main(["jax"]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_an_index_that_is_not_there_is_one_line(
    served: dict[str, object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    assert main(["jax", "--build", "newest"]) == 2
    assert "the package index does not answer (" in capsys.readouterr().err
    monkeypatch.setenv("UV_DEFAULT_INDEX", "file:///srv/simple")
    assert main(["jax"]) == 2
    assert "cannot be listed from the index file:" in capsys.readouterr().err


def test_the_list_says_what_is_built(
    served: dict[str, object], tool: object, capsys: pytest.CaptureFixture[str]
) -> None:
    served["jaxlib"] = FILES
    assert main(["jax", "--build", "0.9.1,newest"]) == 0
    assert "jax 0.10.0: built" in capsys.readouterr().out
    assert main(["jax"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert next(line for line in told if line.startswith("0.12.0")).split() == ["0.12.0", "none"]
    assert "3.13, 3.12" in next(line for line in told if line.startswith("0.10.0"))
    assert main([]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines() if line.startswith("jax")] == [
        ["jax", "0.9.1"], ["jax", "0.10.0"],
    ]  # fmt: skip
