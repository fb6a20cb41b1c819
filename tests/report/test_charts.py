"""What a page's charts are drawn from."""

from __future__ import annotations

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.report.html.charts import throughput
from suite.report.tables.frame import table
from tests import records


def groups(*compiles: str) -> list[str]:
    launches = [
        Launch(each, "run-a", "a.json") for c in compiles for each in records.launches(("pytorch",), 2, compile=c)
    ]
    (one,) = group(launches)
    chart = throughput(table(one, "pytorch"))
    return [chart["groups"][cell["group"]] for cell in chart["cells"]]


def test_cells_that_differ_in_their_compile_mode_have_its_name_the_usual_one_too() -> None:
    assert groups("eager", "compile") == ["usual mode", "compile"]
    assert groups("eager") == [""], "where there is but one"
