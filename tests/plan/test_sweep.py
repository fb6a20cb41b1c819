"""Sweeps: what is named is crossed, what is not stays usual or as the matrix has it."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

from suite.plan.blocks import blocks, framework_of_control
from suite.plan.cell import AUTO, COMPILES_OF, FRAMEWORKS, Cell, CellError, Loader
from suite.plan.matrix import STUDIED, Matrix, MatrixError, matrix, smoke
from suite.plan.matrix import gpu as gpu_matrix
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import AXES, VALUES_MOST, describe_axes, parse_values, swept, usual

ROOT = Path(__file__).parents[2]


def sweep(base: Matrix | None = None, **texts: str) -> Matrix:
    return swept(base or usual(gpu=False), {axis: parse_values(axis, text) for axis, text in texts.items()})


def values(found: Matrix, axis: str) -> set[object]:
    return {getattr(cell, axis) for cell in found.cells}


def test_what_is_named_is_crossed_and_the_rest_is_usual() -> None:
    found = sweep(
        workload="imdb_lstm", framework="jax,pytorch", precision="fp32,bf16", batch="32,64,128",
        compile="eager,compile", loader="tuned,w2",
    )  # fmt: skip
    modes = [("jax", "compile"), ("pytorch", "eager"), ("pytorch", "compile")]
    expected = {
        Cell("imdb_lstm", framework, precision, batch, mode, loader)
        for (framework, mode), precision, batch, loader in itertools.product(
            modes, ("fp32", "bf16"), (32, 64, 128), (Loader(), Loader("workers", 2))
        )
    }
    assert set(found.cells) == expected
    assert len(found.cells) == len(expected) == 36


@pytest.mark.parametrize("gpu", [False, True])
def test_without_an_axis_a_sweep_is_the_usual_cells_of_the_machine(gpu: bool) -> None:
    base, machine = usual(gpu), gpu_matrix() if gpu else smoke()
    assert set(base.cells) == {
        Cell(workload, framework, batch=128 if gpu else 32) for workload in STUDIED for framework in FRAMEWORKS
    }
    assert (base.launches, base.plan) == (machine.launches, machine.plan)
    assert set(base.cells) <= set(machine.cells)


def test_on_top_of_a_matrix_an_axis_takes_the_place_of_the_matrix_s_own() -> None:
    found = sweep(matrix("batch"), precision="bf16", batch="8,auto")
    assert values(found, "batch") == {8, AUTO}
    assert values(found, "precision") == {"bf16"}
    assert len(found.cells) == 2 * len(smoke().cells)
    assert found.launches == matrix("batch").launches


@pytest.mark.parametrize("name", ["compile", "default", "accuracy", "loader"])
@pytest.mark.parametrize(("axis", "value"), [("framework", "pytorch"), ("workload", "imdb_lstm")])
def test_a_framework_or_workload_selects_the_cells_that_a_matrix_has(name: str, axis: str, value: str) -> None:
    found = sweep(matrix(name), **{axis: value})
    assert set(found.cells) == {cell for cell in matrix(name).cells if getattr(cell, axis) == value}


def test_a_workload_or_framework_that_a_matrix_lacks_gets_the_cells_of_the_others() -> None:
    found = sweep(workload="cifar100_resnet18,imdb_lstm")
    assert {(cell.workload, cell.framework) for cell in found.cells} == {
        (workload, framework) for workload in ("cifar100_resnet18", "imdb_lstm") for framework in FRAMEWORKS
    }
    only_torch = Matrix(
        "mine", (Cell("imdb_lstm", "pytorch", compile="compile"), Cell("imdb_lstm", "pytorch", batch=8))
    )
    assert set(sweep(only_torch, framework="tensorflow").cells) == {
        Cell("imdb_lstm", "tensorflow", compile="compile"), Cell("imdb_lstm", "tensorflow", batch=8)
    }  # fmt: skip


def test_each_framework_takes_the_compile_modes_that_it_has() -> None:
    def modes(text: str) -> dict[str, set[str]]:
        cells = sweep(compile=text).cells
        return {name: {cell.compile for cell in cells if cell.framework == name} for name in FRAMEWORKS}

    assert modes("eager,compile") == {"pytorch": {"eager", "compile"}, "tensorflow": {"compile"}, "jax": {"compile"}}
    assert modes("usual,compile") == {
        "pytorch": {"eager", "compile"}, "tensorflow": {"graph", "compile"}, "jax": {"compile"}
    }  # fmt: skip
    assert modes("eager") == {name: {"eager"} for name in FRAMEWORKS}, "those that lack it are reported as unsupported"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_modes_of_a_framework_are_those_of_its_file(framework: str) -> None:
    tree = ast.parse((ROOT / f"suite/worker/frameworks/{framework}/training.py").read_text())
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILE_MODES"
    ]
    keys = tuple(ast.literal_eval(key) for key in tables[0].keys if key) if tables else ("compile",)  # type: ignore[attr-defined]
    assert COMPILES_OF[framework] == keys


def test_each_workload_gets_the_kernels_that_it_has() -> None:
    found = sweep(workload="imdb_lstm,imdb_transformer,cifar100_cnn", kernel="auto,scan,fused,plain")
    assert {(cell.workload, cell.kernel) for cell in found.cells} == {
        ("cifar100_cnn", "auto"),
        ("imdb_lstm", "auto"), ("imdb_lstm", "scan"),
        ("imdb_transformer", "auto"), ("imdb_transformer", "fused"), ("imdb_transformer", "plain"),
    }  # fmt: skip
    moved = sweep(matrix("lstm-kernel"), workload="imdb_transformer")
    assert {cell.kernel for cell in moved.cells} == {"auto"}


def test_a_kernel_is_set_for_lstms_only() -> None:
    found = sweep(kernel="cudnn,scan")
    assert {(cell.workload, cell.kernel) for cell in found.cells} == {
        ("cifar100_cnn", "auto"), ("imdb_lstm", "cudnn"), ("imdb_lstm", "scan")
    }  # fmt: skip
    with pytest.raises(MatrixError, match=r"of a layer that is not here: add --workload imdb_lstm$"):
        sweep(workload="cifar100_cnn", kernel="scan")


def test_a_workload_in_the_place_of_an_lstm_gets_no_kernel() -> None:
    found = sweep(matrix("lstm-kernel"), workload="cifar100_cnn")
    assert {(cell.workload, cell.kernel) for cell in found.cells} == {("cifar100_cnn", "auto")}
    assert len(found.cells) == len(FRAMEWORKS), "each once"
    both = sweep(matrix("lstm-kernel"), workload="cifar100_cnn,imdb_lstm")
    assert {cell.kernel for cell in both.cells if cell.workload == "imdb_lstm"} == {"cudnn", "scan"}


def test_the_name_of_a_sweep_holds_its_values_unless_it_gets_too_long() -> None:
    assert sweep(size="small").name == "sweep-small"
    assert sweep(framework="jax,pytorch", batch="32,auto", accumulate="1,4").name == "sweep-jax+pytorch-b32+bauto-a1+a4"
    assert sweep(matrix("precision"), compile="usual").name == "precision-usual"
    long = sweep(
        workload="imdb_lstm,cifar100_cnn", precision="fp32,bf16,fp16,tf32", batch="8,16,32,64,128,256,512,1024"
    )
    assert long.name == "sweep-by-workload-precision-batch"
    assert len(long.name) <= VALUES_MOST


def test_a_sweep_is_described_as_it_is_typed() -> None:
    texts = {"batch": "32,auto", "compile": "usual,max", "loader": "w2-pinned"}
    axes = {axis: parse_values(axis, text) for axis, text in texts.items()}
    assert describe_axes(axes) == "batch 32,auto compile usual,max loader w2-pinned"
    assert describe_axes({}) == ""


def test_the_order_of_launches_does_not_depend_on_the_order_of_options() -> None:
    one, other = ({"loader": "w2,tuned", "batch": "8,16"}, {"batch": "8,16", "loader": "w2,tuned"})
    assert blocks(sweep(**one).cells, 2, 0) == blocks(sweep(**other).cells, 2, 0)


@pytest.mark.parametrize(
    "loader",
    [Loader(), Loader("workers", 2), Loader("workers"), Loader("dali", 0, 4, True), Loader("naive", cache=False)],
)
def test_a_loader_comes_back_from_its_id(loader: Loader) -> None:
    assert Loader.from_id(loader.id) == loader


@pytest.mark.parametrize(("text", "words"), [
    ("tunned", "unknown loader 'tunned'; did you mean 'tuned'?"),
    ("workers", "loader 'workers' needs a number of workers; write w2 for two"),
    ("tuned-pined", "loader 'tuned-pined': unknown setting 'pined'; did you mean 'pinned'?"),
    ("w2-prefetch", "loader 'w2-prefetch': unknown setting 'prefetch'; did you mean 'prefetch4'?"),
    ("w", "unknown loader 'w'; did you mean 'w2'?"),
    ("tuned-prefetch4-prefetch8", "loader 'tuned-prefetch4-prefetch8' sets prefetch twice; leave out 'prefetch8'"),
    ("w2-pinned-unpinned", "loader 'w2-pinned-unpinned' sets pin_memory twice; leave out 'unpinned' or the other"),
])  # fmt: skip
def test_what_is_no_loader_is_refused_with_the_way_out(text: str, words: str) -> None:
    with pytest.raises(CellError) as caught:
        Loader.from_id(text)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("axis", AXES)
def test_an_empty_value_is_refused_with_an_example(axis: str) -> None:
    with pytest.raises(
        MatrixError, match=rf"^--{axis} is ''; write values with commas between them, such as [\w.=-]+,[\w.]+"
    ):
        parse_values(axis, "")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "²", "9" * 99])
@pytest.mark.parametrize("axis", ["batch", "accumulate"])
def test_a_count_is_a_whole_number(axis: str, text: str) -> None:
    with pytest.raises(MatrixError, match=rf"--{axis} is '.*'; write a number of"):
        parse_values(axis, text)


@pytest.mark.parametrize(
    ("axis", "text", "instead"),
    [
        ("compile", "apex", "--precision bf16"), ("precision", "Apex", "--precision bf16"),
        ("strategy", "dataparallel", "--strategy ddp"), ("strategy", "dp", "--strategy ddp"),
    ],
)  # fmt: skip
def test_what_was_replaced_is_answered_by_what_replaces_it(axis: str, text: str, instead: str) -> None:
    with pytest.raises(MatrixError, match=rf"^--{axis}: .*{instead}"):
        parse_values(axis, text)


def test_matrices_can_be_listed_with_commas() -> None:
    both = union_of_names(["precision,batch"], gpu=False)
    assert both == union_of_names(["precision", "batch"], gpu=False)
    assert both.name == "precision+batch"
    with pytest.raises(MatrixError, match="--matrix is 'batch,'; write names with commas between them"):
        union_of_names(["batch,"], gpu=False)


def test_without_pytorch_the_control_is_of_the_next_framework() -> None:
    cells = sweep(framework="jax,tensorflow").cells
    assert framework_of_control(cells) == "tensorflow"
    assert sum(cell.framework == "tensorflow" for cell, _ in blocks(cells, 1, 0, control=True)) == 4
    assert framework_of_control(smoke().cells) == "pytorch"


def test_each_framework_takes_the_strategies_that_it_has_and_one_device_none() -> None:
    found = sweep(devices="1,2", strategy="usual,fsdp,jit", workload="imdb_lstm")
    strategies = {name: sorted(cell.strategy for cell in found.cells if cell.framework == name) for name in FRAMEWORKS}
    assert strategies == {
        "pytorch": ["", "ddp", "fsdp"], "tensorflow": ["", "mirrored"], "jax": ["", "jit", "shard-map"]
    }  # fmt: skip
    assert sweep(devices="1,2").name == "sweep-d1+d2"
    with pytest.raises(MatrixError, match="add --devices 2"):
        sweep(strategy="fsdp")
    with pytest.raises(MatrixError, match="write a number of devices"):
        sweep(devices="all")
