"""Which category a CUDA kernel belongs to, by its name: those of cuDNN, cuBLAS, CUTLASS, Triton, NCCL and Eigen.

Written from the names that these libraries document or print in public traces; none of it was seen on a GPU here.
"""

from __future__ import annotations

import re

from suite.worker.profilers.timeline import OTHER

#: The first pattern found in a kernel's name decides.
KERNELS = [
    (re.compile(pattern, re.IGNORECASE), category)
    for pattern, category in (
        (r"nccl", "communication"),
        (r"memcpy|memset", "copy and layout change"),
        (r"wgrad|bprop_filter|backward_?filter|conv\w*BackwardWeight", "convolution weight gradient"),
        (r"dgrad|bprop_data|backward_?data|conv\w*BackwardInput", "convolution input gradient"),
        (r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|transpose|permute|CatArray|copy_kernel|direct_copy|convert_element"
         r"|SwapDimension|ShuffleInTensor|cudnn::ops::.*(scale|cvt|convertTensor)|tensorTransform",
         "copy and layout change"),
        (r"fprop|implicit_(conv|gemm)|winograd|convolve|conv2d|scudnn|cudnn.*conv", "convolution forward"),
        (r"rnn|lstm|gru_|persist.*(elementwise|gemm)", "recurrent kernel"),
        (r"philox|dropout|bernoulli|threefry|curand|distribution|FillPhilox|rng_", "random numbers and dropout"),
        (r"bn_(fw|bw)|batch_?norm|layer_?norm|group_?norm|RMSNorm", "normalisation"),
        (r"multi_tensor_apply|adam|sgd|momentum|optimizer", "optimizer"),
        (r"gemm|gemv|cutlass|splitK|cublas|_tn_|_nt_|_nn_|matmul|ampere_\w+_s?[0-9]+x[0-9]+|sm\d\d_xmma|nvjet",
         "matrix product"),
        (r"embedding|gather|scatter|index|segment", "embedding and gather"),
        (r"triton_(red|per)_|reduce|pool|softmax|argm(ax|in)|nll_loss|cub::|norm_kernel|cross_entropy",
         "reduction and pooling"),
        (r"triton_(poi|fus)|loop_\w*fusion|elementwise|vectorized|unrolled|Eigen(Meta|::internal)|BiasGrad|BiasNHWC|relu|fill"
         r"|add_|mul_|_kernel_impl|\w*fusion(_\d+)?$", "element-wise"),
    )
]  # fmt: skip

#: What Inductor puts into a Triton kernel's name: triton_poi_fused_add_relu_3 holds an add and a relu.
_FUSED = re.compile(r"(?:triton_\w{3}|cpp)_fused_+(?P<held>\w+?)(?:_\d+)?$")


def category_of(name: str) -> str:
    """The category of a CUDA kernel; `OTHER` where no pattern fits."""
    return next((category for pattern, category in KERNELS if pattern.search(name)), OTHER)


def kernel_contents(name: str) -> tuple[str, ...]:
    """What a kernel of Inductor holds, in the order of its name; the name joins all words by underscores."""
    found = _FUSED.search(name)
    return tuple(dict.fromkeys(word for word in found["held"].split("_") if word)) if found else ()
