"""The frameworks: what each is called, how it is drawn, which modes and strategies it has, what is installed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from suite.catalog import load_installed

#: The share of a GPU's memory that PyTorch's and JAX's allocators may take, both counted from the whole card. By
#: default JAX takes 75 % and PyTorch all, so the largest batches would come from unequal budgets. The rest is for what
#: lies outside of the allocators: the CUDA context, kernels, handles of cuBLAS and cuDNN. TensorFlow has no such
#: setting for an allocator that grows: it takes what is free when it starts, less a reserve of its own (0.5 to
#: 1.8 GiB).
MEMORY_FRACTION = 0.95

#: Beginnings of the environment variables that all frameworks read, by the libraries that they share: threads, products
#: of matrices, memory, CUDA, communication, NumPy, Python itself. Each framework names its own as `Framework.reads`.
READ_BY_ALL = (
    "BLIS_", "CUBLAS", "CUDA_", "CUDNN_", "CUFFT_", "CUPTI_", "CUSOLVER_", "CUSPARSE", "CUTENSOR_", "DALI_",
    "DNNL_", "FI_", "GLIBC_TUNABLES", "GLOO_", "GOTO_", "HUGETLB_", "IPEX_", "JEMALLOC_", "LD_", "MALLOC_",
    "MIMALLOC_", "NCCL_", "NPY_", "NUMEXPR_", "NUMPY_", "NVIDIA_", "NVSHMEM_", "OMP_", "ONEDNN_", "OPENBLAS_",
    "PYTHONDEVMODE", "PYTHONHASHSEED", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONPERFSUPPORT", "PYTHONTRACEMALLOC",
    "PYTHON_CPU_COUNT", "PYTHON_GIL", "PYTHON_JIT", "PYTHON_PERF_JIT_SUPPORT", "RDMAV_", "TBB_", "TCMALLOC_", "UCX_",
    "VECLIB_",
)  # fmt: skip

#: Strategies that are known by name.
NOT_MEASURED = {
    "horovod": "Horovod's last release (0.28.1, June 2023) does not build against PyTorch 2.13; ddp replaces it, and "
    "multiworker in TensorFlow",
}
#: What other names of settings' values stand for, and what replaces it, by the name in small letters.
REPLACED = {
    "apex": "Apex is NVIDIA's extension of PyTorch, whose mixed precision and DDP PyTorch has itself: --precision bf16 "
    "or fp16, --strategy ddp",
    "dataparallel": "DataParallel is PyTorch's one process with a thread for each GPU, which copies the model in every "
    "step; --strategy ddp replaces it",
}
REPLACED["dp"] = REPLACED["dataparallel"]


@dataclass(frozen=True)
class Framework:
    """One framework. Its code is in the folders of its name in `suite.worker` and in a file of each workload.

    ``colour``, ``hatch``, ``marker`` and ``dashes`` (of SVG lines) are its look in every plot. ``compiles`` are its
    compile modes, first the usual one, and ``faster`` those of them that may be faster than it; the programs of the
    ``cached`` ones can be kept by ``cache_variables``, with the folder in place of ``{}``. ``strategies`` are the
    ways in which several devices train one model, with what its users call them; first the one with a process for each
    device, which an id leaves out and others are compared with. A cell that names none gets ``usual_strategy``, else
    the first. ``one_process`` are those that run all devices of a host in one process.

    ``one_layout`` is the reason why it has one memory layout of images; empty where it has several.
    ``thread_variables`` are set to the number of threads where a cell asks for one, if no function can.
    ``thread_limits`` leave fewer threads at work than the framework says that it has.

    ``reads`` are the beginnings of the environment variables that it and its companions read, besides `READ_BY_ALL`.

    ``package`` is imported, and ``build_file`` and ``build_pattern`` show in its folder whether it was built for CUDA;
    where ``cuda_plugins`` are given, one of these distributions shows it. ``distributions`` are the framework itself,
    and ``companions`` what a record of it may name besides. ``variables`` are set before it is imported, and
    ``keras_backend`` is its name as a backend of Keras.

    Releases: ``oldest`` is the first that the suite's files support. ``release`` and ``cuda_release`` are the
    requirements of one, on a CPU and on a GPU, and ``beside`` what is installed with it, in the version that fits.
    ``wheels`` is the distribution that is built for each Python.
    """

    name: str
    title: str
    colour: str
    hatch: str
    marker: str
    dashes: str
    compiles: tuple[str, ...]
    package: str
    faster: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    cache_variables: Mapping[str, str] = field(default_factory=dict)
    strategies: Mapping[str, str] = field(default_factory=dict)
    usual_strategy: str = ""
    one_process: tuple[str, ...] = ()
    build_file: str = "version.py"
    build_pattern: str = ""
    cuda_plugins: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    keras_backend: str = ""
    thread_variables: tuple[str, ...] = ()
    thread_limits: tuple[str, ...] = ()
    one_layout: str = ""
    oldest: str = ""
    release: str = ""
    cuda_release: str = ""
    beside: tuple[str, ...] = ("keras",)
    wheels: str = ""

    @property
    def installable(self) -> tuple[str, ...]:
        """All distributions that a record of it may name."""
        return (*self.distributions, *self.companions, "numpy", "keras")


# Colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), which the colour-blind can tell apart.
PYTORCH = Framework(
    "pytorch", "PyTorch", colour="#E69F00", hatch="", marker="o", dashes="",
    compiles=("eager", "compile", "max", "trace"), faster=("compile", "max"), cached=("compile", "max"),
    cache_variables={"TORCHINDUCTOR_CACHE_DIR": "{}/inductor", "TRITON_CACHE_DIR": "{}/triton"},
    strategies={
        "ddp": "DDP", "fsdp": "FSDP", "deepspeed": "DeepSpeed", "horovod": "Horovod", "split": "split layers",
        "synchronised": "synchronised batch statistics",
    },
    package="torch", build_pattern=r"^cuda\b[^=\n]*=\s*['\"]",
    distributions=("torch",), companions=("triton", "lightning"), keras_backend="torch",
    reads=(
        "AOT", "ATEN_", "DEEPSPEED_", "DISABLE_ADDMM_CUDA_LT", "DS_", "DTENSOR_", "GOMP_", "HALIDE_", "INDUCTOR_",
        "KINETO_", "KMP_", "LRU_CACHE_CAPACITY", "MKL_", "PL_", "PT2_", "PYTORCH_", "THP_MEM_ALLOC_ENABLE", "TORCH",
        "TRITON_",
    ),
    thread_limits=("OMP_THREAD_LIMIT",),
    oldest="2.6.0", release="torch=={}", cuda_release="torch=={}", wheels="torch",
)  # fmt: skip
TENSORFLOW = Framework(
    "tensorflow", "TensorFlow", colour="#56B4E9", hatch="////", marker="s", dashes="6 5",
    compiles=("graph", "compile"), faster=("compile",), cached=("compile",),
    cache_variables={"TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory={}"},
    strategies={
        "multiworker": "MultiWorkerMirroredStrategy", "mirrored": "MirroredStrategy", "horovod": "Horovod",
        "split": "split layers", "synchronised": "synchronised batch statistics",
    },
    usual_strategy="mirrored",  # the reference starts a server that obeys whoever connects
    one_process=("mirrored", "split"),
    package="tensorflow", build_file="python/platform/build_info.py", build_pattern=r"is_cuda_build['\"]\s*[,:]\s*True",
    distributions=("tensorflow", "tensorflow-cpu"),
    reads=("AUTOGRAPH_", "KERAS_", "TENSORFLOW_", "TF_", "TF2_", "XLA_"),
    variables={"KERAS_BACKEND": "tensorflow"},  # Keras reads it at import, whatever a settings file in the home says
    keras_backend="tensorflow",
    # On a CPU its kernels are for channels last; for a GPU see `grappler/optimizers/generic_layout_optimizer.cc`.
    one_layout="TensorFlow's convolutions on a CPU have channels last only, and on a GPU its graph optimizer chooses",
    oldest="2.18.0", release="tensorflow-cpu=={}", cuda_release="tensorflow[and-cuda]=={}", wheels="tensorflow-cpu",
)  # fmt: skip
JAX = Framework(
    "jax", "JAX", colour="#009E73", hatch="....", marker="^", dashes="2 4",
    compiles=("compile", "nographs"), cached=("compile", "nographs"),
    cache_variables={  # without limits, programs that are small or soon compiled are kept too
        "JAX_COMPILATION_CACHE_DIR": "{}",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    },
    strategies={
        "shard-map": "shard_map", "jit": "jit and NamedSharding", "local": "one process", "split": "split layers",
    },
    one_process=("local", "split"),
    package="jax", cuda_plugins=("jax-cuda13-plugin", "jax-cuda12-plugin"),
    distributions=("jax",),
    companions=("jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "flax", "optax", "grain"),
    reads=(
        "FLAX_", "GRAIN_", "JAX", "LIBTPU_", "MOSAIC_", "NPROC", "OPTAX_", "PJRT_", "PYGRAIN_", "TENSORSTORE_", "TPU_",
        "XLA_",
    ),
    variables={
        # A preallocating client would hide what a model really needs.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_CLIENT_MEM_FRACTION": str(MEMORY_FRACTION),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "",  # the older name; XLA refuses to start where both are set
    },
    keras_backend="jax",
    one_layout="flax's convolutions have channels last only, and XLA chooses how they lie in memory",
    thread_variables=("NPROC", "PJRT_NPROC"),  # `DefaultThreadPoolSize` in XLA's `pjrt/utils.cc` reads them
    oldest="0.6.0", release="jax=={}", cuda_release="jax[cuda12]=={}", beside=("flax", "optax", "grain", "keras"),
    wheels="jaxlib",
)  # fmt: skip

#: By name, in the order in which tables and plots show them.
FRAMEWORKS: dict[str, Framework] = {
    each.name: each for each in (PYTORCH, TENSORFLOW, JAX, *load_installed("frameworks"))
}

#: All compile modes: first the usual one of each framework.
COMPILES = tuple(
    dict.fromkeys(
        [*(each.compiles[0] for each in FRAMEWORKS.values()), *chain(*(each.compiles for each in FRAMEWORKS.values()))]
    )
)
#: All strategies, with what their users call them; each framework's stand in its own order.
STRATEGIES: dict[str, str] = {
    name: title
    for each in zip_longest(*(framework.strategies.items() for framework in FRAMEWORKS.values()))
    for name, title in filter(None, each)
}
