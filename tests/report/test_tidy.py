"""Every launch as a row: one line of pandas loads it, with types, a version, and a page that explains the columns."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

from suite.analysis.records.load import Launch
from suite.catalog.setting import WHOLE
from suite.compare.__main__ import main
from suite.plan.cell import AUTO
from suite.record.record import Record
from suite.report.html.folder import write_csv
from suite.report.tables.columns import FLAG, NUMBER
from suite.report.tables.launches import (
    COLUMNS,
    FAMILIES,
    SCHEMA,
    column,
    columns,
    document_columns,
    launch_table,
    write_parquet,
)
from tests import records
from tests.expected import golden
from tests.records import HOSTILE, mixed, replace

ROOT = Path(__file__).parents[2]


def written(held: list[Record], folder: Path) -> pd.DataFrame:
    columns = launch_table(Launch(record, "run-a", "0001_a.json") for record in held)
    write_parquet(columns, folder / "launches.parquet")
    write_csv(folder / "launches.csv", columns)
    return pd.read_parquet(folder / "launches.parquet")


def test_both_files_hold_the_same(tmp_path: Path) -> None:
    found = {"effective_batch": 96}
    held = [replace(r, cell=r.cell.but(batch=AUTO), settings=found) for r in records.launches(["jax"], batch=96)]
    held += mixed()
    read = written(held, tmp_path)
    plain = pd.read_csv(tmp_path / "launches.csv")
    assert read.columns.tolist() == plain.columns.tolist()
    assert len(read) == len(plain) == len(held)
    for name in read.columns:
        if column(name).form in (WHOLE, NUMBER):
            pd.testing.assert_series_equal(read[name].astype(float), plain[name].astype(float))
        elif column(name).form == FLAG:
            assert read[name].tolist() == plain[name].where(plain[name].notna(), None).tolist()
        else:
            assert read[name].tolist() == plain[name].astype(object).where(plain[name].notna(), "").tolist()


def test_types_and_the_version_are_in_the_file(tmp_path: Path) -> None:
    read = written(mixed(), tmp_path)
    assert set(read["schema"]) == {SCHEMA}
    schema = parquet.read_schema(tmp_path / "launches.parquet")
    assert schema.metadata[b"suite_schema"] == str(SCHEMA).encode()
    assert {name: str(schema.field(name).type) for name in ("cell", "launch", "compile_s", "control")} == {
        "cell": "string", "launch": "int64", "compile_s": "double", "control": "bool",
    }  # fmt: skip
    assert schema.field("compile_s").metadata[b"unit"] == b"s"
    assert str(schema.field("memory_rss_peak_bytes").type) == "int64"


def test_the_same_launches_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        written(mixed(), tmp_path / name)
    for name in ("launches.parquet", "launches.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_every_column_is_known_in_one_order_whichever_launch_comes_first() -> None:
    held = mixed()
    for order in (held, held[::-1]):
        names = list(launch_table(Launch(record, "run-a", "file") for record in order))
        known = [each.name for each in columns()]
        assert names[: len(known)] == known
        rest = names[len(known) :]
        assert rest == [
            "startup_interpreter_s", "startup_import_s", "startup_data_s", "startup_build_s", "startup_first_batch_s",
            "memory_rss_peak_bytes",
        ]  # fmt: skip
        assert all(any(name.startswith(family.name) for family in FAMILIES) for name in rest)


def test_the_page_on_the_columns_is_up_to_date() -> None:
    golden(ROOT / "results" / "SCHEMA.md", document_columns())
    text = document_columns()
    for each in COLUMNS:
        assert f"| `{each.name}` |" in text
        assert each.meaning
        assert each.unit or each.form != NUMBER, each.name


def test_numbers_beyond_a_column_and_hostile_text_do_no_harm(tmp_path: Path) -> None:
    held = [replace(records.record(), memory={"rss_peak_bytes": 10**24, HOSTILE: 5}, startup={HOSTILE: 1.0})]
    read = written(held, tmp_path)
    assert read["memory_rss_peak_bytes"].isna().all()
    assert not any("\x1b" in name or "\n" in name for name in read.columns)


@pytest.mark.usefixtures("undrawn")
def test_without_pyarrow_the_file_is_left_out_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main([str(run), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.count("launches.parquet was left out") == 1
    assert not (tmp_path / "out" / "launches.parquet").exists()
    assert (tmp_path / "out" / "launches.csv").exists()
