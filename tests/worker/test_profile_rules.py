"""Each operation gets the right category: names recorded on a CPU, and kernels of a GPU in a trace made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.record.parts.profile import CATEGORIES
from suite.worker.profilers import rules, tensorflow_events, xla, xla_events
from suite.worker.profilers.kineto import events_of, for_people
from suite.worker.profilers.onednn import shares_of
from suite.worker.profilers.timeline import OTHER, shares
from suite.worker.profilers.xla import Instruction, program
from tests.frameworks import framework_of, needs_frameworks

#: From one step of each workload in size small, on a CPU: PyTorch 2.13, TensorFlow 2.21.
RECORDED = json.loads((Path(__file__).parent / "recorded" / "operations.json").read_text(encoding="utf-8"))

#: The one operator of PyTorch that no name can place: it computes both gradients.
BOTH = "aten::convolution_backward"


def test_names_recorded_from_pytorch_have_their_categories() -> None:
    for category, names in RECORDED["pytorch"].items():
        expected = "" if category == "no operation" else category
        assert {name: rules.pytorch_category(name) for name in names} == dict.fromkeys(names, expected)
    assert RECORDED["pytorch"][OTHER] == [BOTH]


def test_names_recorded_from_tensorflow_have_their_categories() -> None:
    for category, names in RECORDED["tensorflow"].items():
        found = {name: rules.tensorflow_category(*name.rsplit(":", 1)) for name in names}
        assert found == dict.fromkeys(names, category)
    assert OTHER not in RECORDED["tensorflow"]


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_every_recorded_category_is_a_documented_one(framework: str) -> None:
    assert RECORDED[framework].keys() <= {*CATEGORIES, "no operation"}


def test_what_waits_for_other_processes_in_tensorflow_is_communication() -> None:
    names = ("CollectiveOpV2Kernel::Run", "CollectiveExecutor::CompleteParams", "BaseCollectiveExecutor::ExecuteAsync")
    assert {rules.category_of("event", name) for name in names} == {"communication"}
    assert rules.category_of("event", "adam/CollectiveReduceV2:CollectiveReduceV2") == OTHER


def test_unfolded_images_and_draws_from_normals_have_rules() -> None:
    assert {rules.pytorch_category(f"aten::{name}") for name in ("im2col", "col2im")} == {"copy and layout change"}
    nothing = program("")
    for name in ("jit(_normal)/jit(_normal_real)/erf_inv", "jit(_normal)/jit(_normal_real)", "jit(_uniform)/mul"):
        drawn = Instruction("fusion.1", "multiply", "f32[8]", f"jit(step)/jvp(Cnn)/{name}")
        assert xla.category_of(drawn, nothing) == "random numbers and dropout", name
    other = Instruction("multiply.1", "multiply", "f32[8]", "jit(step)/jvp(Cnn)/mul")
    assert xla.category_of(other, nothing) == "element-wise"


LOOP = "sequential/lstm/while/body/_5/"
ONE, OTHER_ONE = (["lstm/MatMul:MatMul"] * 480, ["lstm/MatMul_1:MatMul"] * 480)


@needs_frameworks("tensorflow")
@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (ONE + OTHER_ONE, ""),
        (ONE + OTHER_ONE[:440], ""),
        (ONE + OTHER_ONE[:420], "recorded 900 of at least 960"),
        (ONE, "recorded 480 of at least 960"),  # one of two never: the other was taken for all that there is
        (ONE[:1], "recorded 1 of at least 960"),
        ([], "recorded 0 of at least 960"),
        (None, "recorded 0 of at least 2"),  # nothing of the loop: it was taken for none
    ],
)
def test_a_profile_of_tensorflow_without_its_cheap_products_is_refused(recorded: list[str] | None, words: str) -> None:
    from types import SimpleNamespace as Made

    framework_of("tensorflow")
    from suite.worker.profilers.tensorflow import check_products

    def function(name: str, *operations: str) -> Made:
        nodes = [Made(name=each, op=each.partition("/")[2].partition("_")[0], attr={}) for each in operations]
        return Made(signature=Made(name=name), node_def=nodes)

    body = function("body", "lstm/MatMul", "lstm/MatMul_1", "lstm/AddV2")
    unused = function("as_it_was", "lstm/MatMul", "lstm/MatMul_1", "lstm/MatMul_2")
    loop = Made(name="while", op="While", attr={"body": Made(func=Made(name="body")), "N": Made(func=Made(name=""))})
    definition = Made(node=[loop], library=Made(function=[body, unused]))
    names = [LOOP + name for name in [*recorded, *["lstm/AddV2:AddV2"] * 480]] if recorded is not None else []
    names += ["dense/MatMul:MatMul"] * 3
    if not words:
        check_products(names, definition)
        return
    with pytest.raises(ValueError, match=f"{words} matrix products"):
        check_products(names, definition)


def test_what_no_rule_knows_is_other() -> None:
    assert rules.pytorch_category("aten::frobnicate") == OTHER
    assert rules.pytorch_category("strange") == OTHER
    assert rules.tensorflow_category("a/b", "Frobnicate") == OTHER
    assert rules.category_of("kernel", "frobnicate") == OTHER


#: The shapes of XLA's text for a CPU, shortened by hand.
HLO = """\
HloModule jit__step

%fused_computation.5 (param_0.5: f32[256,15,15,32], param_1.5: f32[13,13,32,256]) -> f32[256,3,3,256] {
  %param_0.5 = f32[256,15,15,32]{3,2,1,0} parameter(0)
  %param_1.5 = f32[13,13,32,256]{3,2,1,0} parameter(1)
  ROOT %convolution.13 = f32[256,3,3,256]{3,2,1,0} convolution(%param_0.5, %param_1.5), window={size=13x13}
}

%fused_computation.7 (param_0.7: f32[8,4], param_1.7: f32[8,4]) -> f32[8,4] {
  %param_0.7 = f32[8,4]{1,0} parameter(0)
  %param_1.7 = f32[8,4]{1,0} parameter(1)
  %multiply.1 = f32[8,4]{1,0} multiply(%param_0.7, %param_1.7), metadata={op_name="jit(_step)/mul"}
  ROOT %add.1 = f32[8,4]{1,0} add(%multiply.1, %param_1.7), metadata={op_name="jit(_step)/add"}
}

%fused_computation.8 (param_0.8: f32[100,8,4], param_1.8: s32[]) -> f32[8,4] {
  %param_0.8 = f32[100,8,4]{2,1,0} parameter(0)
  %param_1.8 = s32[] parameter(1)
  ROOT %dynamic-slice.1 = f32[8,4]{1,0} dynamic-slice(%param_0.8, %param_1.8), dynamic_slice_sizes={1,8,4}
}

ENTRY %main (kernel: f32[3,3,256,256], w: f32[8,4]) -> f32[8,4] {
  %kernel = f32[3,3,256,256]{3,2,1,0} parameter(0)
  %w = f32[8,4]{1,0} parameter(1)
  %big = f32[100,8,4]{2,1,0} broadcast(%w), dimensions={1,2}
  %index = s32[] constant(3)
  %fusion.w = f32[256,3,3,256]{3,2,1,0} fusion(%big, %kernel), kind=kCustom, calls=%fused_computation.5
  %update = f32[8,4]{1,0} fusion(%w, %w), kind=kLoop, calls=%fused_computation.7
  %slice = f32[8,4]{1,0} fusion(%big, %index), kind=kLoop, calls=%fused_computation.8
  %forward = f32[8,6,6,512]{3,2,1,0} convolution(%w, %kernel), metadata={op_name="jit(_s)/jvp(Cnn)/conv1/conv"}
  %backward = f32[8,6,6,256]{3,2,1,0} convolution(%w, %kernel), metadata={op_name="transpose(jvp(Cnn))/conv1/conv"}
  %product = f32[8,4]{1,0} dot(%w, %w), metadata={op_name="jit(_step)/jvp(Cnn)/hidden/dot_general"}
  %bits = u32[8]{0} add(%index, %index), metadata={op_name="jit(_step)/jvp(Cnn)/Dropout_0/jit(_bernoulli)/add"}
  %pool = f32[8,2]{1,0} reduce-window(%w, %index), metadata={op_name="jit(_step)/jvp(Cnn)/reduce_window_max"}
  %bn = f32[8,4]{1,0} multiply(%w, %w), metadata={op_name="jit(_step)/jvp(Cnn)/stem_normalisation/mul"}
  %relu = f32[8,4]{1,0} maximum(%w, %w), metadata={op_name="jit(_step)/jvp(Cnn)/jit(relu)/max"}
  %moved = f32[4,8]{1,0} transpose(%w), dimensions={1,0}
  %loop = (s32[], f32[8,4]{1,0}) while(%index), condition=%c, body=%b, metadata={op_name="jit(_step)/jvp(Lstm)/while"}
  %rnn = f32[8,4]{1,0} custom-call(%w), custom_call_target="cudnn_rnn"
  %grad = f32[8,4]{1,0} custom-call(%w), custom_call_target="__cudnn$convBackwardFilter"
  %odd = f32[8,4]{1,0} custom-call(%w), custom_call_target="frobnicate"
  ROOT %sum = f32[8,4]{1,0} all-reduce(%w), to_apply=%add
}
"""
EXPECTED = {
    "fusion.w": "convolution weight gradient", "update": "optimizer", "slice": "copy and layout change",
    "forward": "convolution forward", "backward": "convolution input gradient", "product": "matrix product",
    "bits": "random numbers and dropout", "pool": "reduction and pooling", "bn": "normalisation",
    "relu": "element-wise", "moved": "copy and layout change", "loop": "host and launch overhead",
    "rnn": "recurrent kernel", "grad": "convolution weight gradient", "odd": OTHER, "sum": "communication",
}  # fmt: skip


def test_an_instruction_of_xla_is_placed_by_what_it_holds_and_by_its_name() -> None:
    whole = program(HLO)
    found = {name: xla.category_of(whole.instructions[name], whole) for name in EXPECTED}
    assert found == EXPECTED


def test_a_fusion_says_what_it_holds_and_a_slice_moves_only_itself() -> None:
    instructions = program(HLO).instructions
    assert xla.holds(instructions["update"]) == ("mul", "add")
    assert xla.title(instructions["fusion.w"]) == "fusion.w: convolution f32[256,3,3,256]"
    assert xla.title(instructions["forward"]) == "forward: conv1/conv"
    assert instructions["update"].moved == 3 * 8 * 4 * 4
    assert instructions["slice"].moved == 2 * 8 * 4 * 4 + 4
    assert instructions["loop"].moved is None
    assert "multiply.1" not in instructions, "it never runs by itself"


@pytest.mark.parametrize("events_of", [xla_events.events_of, tensorflow_events.events_of])
def test_a_convolution_lasts_until_xla_says_that_it_ended(events_of: Any) -> None:
    """On a CPU its threads, which no profiler sees, go on after the call; a product's do not."""
    cpu = "/host:CPU"
    begun, ended = {"forward": 0, "product": 6_000}, {"forward": 90_000, "product": 95_000}
    rows = [(cpu, "pool", name, begin, begin + 5_000, {"hlo_op": name}) for name, begin in begun.items()]
    rows += [(cpu, "pool", f"end: {name}", end - 1, end, {}) for name, end in ended.items()]
    rows += [(cpu, "executor", "ExecutorState::Process", 0, 100_000, {})]
    spent = shares(events_of(rows, program(HLO)), 0, 100_000).spent
    found = {name: (each.nanoseconds, each.calls) for (name, *_), each in spent.items() if name[0] != "("}
    assert found == {"forward: conv1/conv": (87_500, 1), "product: hidden/dot_general": (2_500, 1)}


@pytest.mark.parametrize("text", ["", "no program", "ENTRY %main () -> f32[] {\n  %a = ((((\n}", "%x = f32[2 add(%y"])
def test_a_text_that_is_no_program_holds_nothing(text: str) -> None:
    assert isinstance(program(text).instructions, dict)
    assert xla.category_of(Instruction("a", "add", "f32[2]"), program(text)) == "element-wise"


#: Names that cuDNN, cuBLAS, CUTLASS, PyTorch, Eigen, Triton and NCCL give to kernels, put together by hand.
KERNELS = {
    "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16": "convolution forward",
    "sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc": "convolution input gradient",
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc": "convolution weight gradient",
    "cudnn::cnn::wgrad2d_grouped_direct_kernel<float>": "convolution weight gradient",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32>": "convolution weight gradient",
    "void cudnn::winograd_nonfused::winogradForwardFilter4x4": "convolution forward",
    "ampere_sgemm_128x64_nt": "matrix product",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x128_16x4_tn_align4>": "matrix product",
    "nvjet_tst_128x128_64x4_1x2_h_bz_coopA_NNT": "matrix product",
    "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>": "recurrent kernel",
    "void cudnn::bn_fw_tr_1C11_singleread<float>": "normalisation",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": "element-wise",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>": "reduction and pooling",
    "void at::native::max_pool_forward_nhwc<float>": "reduction and pooling",
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float>": "random numbers and dropout",
    "void at::native::multi_tensor_apply_kernel<FusedSgdMathFunctor>": "optimizer",
    "void at::native::embedding_backward_feature_kernel<float>": "embedding and gather",
    "void cudnn::ops::nchwToNhwcKernel<float>": "copy and layout change",
    "gpu_memcpy Memcpy HtoD (Pinned -> Device)": "copy and layout change",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)": "communication",
    "triton_poi_fused_add_relu_3": "element-wise",
    "triton_red_fused_native_batch_norm_backward_7": "normalisation",
    "loop_multiply_fusion": "element-wise",
}


def test_a_kernel_of_cuda_is_placed_by_its_name() -> None:
    assert {name: rules.category_of("kernel", name) for name in KERNELS} == KERNELS
    assert rules.kernel_contents("triton_poi_fused_add_relu_3") == ("add", "relu")
    assert rules.kernel_contents("ampere_sgemm_128x64_nt") == ()


def test_a_trace_of_pytorch_for_people_names_no_machine_and_has_only_rows_of_processes() -> None:
    step = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1.0, "dur": 2.0}
    nobody = {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 3.0}
    written = {"schemaVersion": 1, "host_name": "mine", "traceName": "/home/me/x.json", "traceEvents": [step, nobody]}
    assert for_people(written) == {"schemaVersion": 1, "traceEvents": [step]}


def test_a_trace_of_pytorch_on_cuda_counts_kernels_and_not_operators() -> None:
    """Made by hand in the format of `torch.profiler`: nothing here was recorded on a GPU."""

    def row(kind: str, name: str, start: float, length: float, thread: int) -> dict[str, Any]:
        return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length}

    trace = {
        "traceEvents": [
            row("user_annotation", "suite: steps", 0, 100, 1),
            row("cpu_op", "aten::conv2d", 5, 20, 1),
            row("cuda_runtime", "cudaLaunchKernel", 10, 5, 1),
            row("kernel", "sm80_xmma_fprop_implicit_gemm_f32f32", 20, 40, 7),
            row("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 70, 10, 8),
            row("cuda_runtime", "cudaDeviceSynchronize", 60, 40, 1),
        ]
    }
    found = shares(events_of(trace), 0, 100_000)
    times = {category: each.nanoseconds for (_, category, *_), each in found.spent.items()}
    assert times == {
        "convolution forward": 40_000,
        "communication": 10_000,
        "host and launch overhead": 15_000,
        "idle": 35_000,
    }
    assert found.idle == 0.5


def test_onednn_divides_what_pytorch_shows_as_one_operator() -> None:
    def line(primitive: str, kind: str, milliseconds: float) -> str:
        return f"onednn_verbose,v1,primitive,exec,cpu,{primitive},jit:avx2,{kind},src:f32,,,mb2_ic3oc4,{milliseconds}"

    output = "\n".join(
        [
            "onednn_verbose,v1,info,cpu,isa:Intel AVX2",
            line("reorder", "undef", 1), line("convolution", "forward_training", 9),
            line("inner_product", "forward", 5), line("reorder", "undef", 2), line("convolution", "backward_data", 8),
            line("convolution", "backward_weights", 6), line("reorder", "undef", 4), "other output",
        ]
    )  # fmt: skip
    forward, backward = shares_of(output)
    assert forward == {"copy and layout change": 0.1, "convolution forward": 0.9}
    assert backward == {
        "copy and layout change": 0.3, "convolution input gradient": 0.4, "convolution weight gradient": 0.3,
    }  # fmt: skip
    assert shares_of("nothing") == ({}, {})
