"""The environment variables that may leave a machine, and the words that their values may consist of.

A record holds more (`suite.record.parts.environment.select_variables`); what is sent to others holds these, unless its
maker names one. A name that is not here may be anybody's, and a value that is made of other words may be a secret.
"""

from __future__ import annotations

import re

#: By the beginnings of their names.
_NAMES = {
    "": "GLIBC_TUNABLES LD_PRELOAD NPROC KERAS_BACKEND KERAS_NNX_ENABLED PJRT_NPROC NVIDIA_TF32_OVERRIDE "
    "ATEN_CPU_CAPABILITY ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA",
    "CUBLAS_": "WORKSPACE_CONFIG LOGINFO_DBG EMULATE_SINGLE_PRECISION EMULATION_STRATEGY",
    "CUBLASLT_": "LOG_LEVEL WORKSPACE_SIZE",
    "CUDA_": "DEVICE_ORDER LAUNCH_BLOCKING MODULE_LOADING DEVICE_MAX_CONNECTIONS CACHE_DISABLE CACHE_MAXSIZE "
    "FORCE_PTX_JIT DISABLE_PTX_JIT AUTO_BOOST SCALE_LAUNCH_QUEUES MODULE_DATA_LOADING",
    "CUDNN_": "LOGINFO_DBG LOGLEVEL_DBG",
    "DNNL_": "VERBOSE PRIMITIVE_CACHE_CAPACITY DEFAULT_FPMATH_MODE JIT_DUMP",
    "GOMP_": "SPINCOUNT CPU_AFFINITY STACKSIZE",
    "JAX_": "PLATFORMS PLATFORM_NAME ENABLE_X64 DISABLE_JIT DEFAULT_MATMUL_PRECISION DEFAULT_DTYPE_BITS DEBUG_NANS "
    "DEBUG_INFS ENABLE_COMPILATION_CACHE THREEFRY_PARTITIONABLE DEFAULT_PRNG_IMPL NUMPY_DTYPE_PROMOTION "
    "NUMPY_RANK_PROMOTION CPU_ENABLE_ASYNC_DISPATCH CPU_COLLECTIVES_IMPLEMENTATION LOG_COMPILES TRACEBACK_FILTERING "
    "CHECK_TRACER_LEAKS DISABLE_MOST_OPTIMIZATIONS OPTIMIZATION_LEVEL EXEC_TIME_OPTIMIZATION_EFFORT NUM_CPU_DEVICES "
    "ENABLE_PGLE COMPILER_ENABLE_REMAT_PASS DEFAULT_DEVICE SOFTMAX_CUSTOM_JVP",
    "KMP_": "AFFINITY BLOCKTIME HW_SUBSET LIBRARY SETTINGS STACKSIZE DUPLICATE_LIB_OK INIT_AT_FORK TPAUSE "
    "FORKJOIN_BARRIER PLAIN_BARRIER REDUCTION_BARRIER ALL_THREADS DEVICE_THREAD_LIMIT TEAMS_THREAD_LIMIT",
    "MALLOC_": "ARENA_MAX ARENA_TEST MMAP_MAX_ MMAP_THRESHOLD_ TRIM_THRESHOLD_ TOP_PAD_ PERTURB_ CHECK_ CONF",
    "MKL_": "NUM_THREADS DYNAMIC CBWR VERBOSE THREADING_LAYER INTERFACE_LAYER ENABLE_INSTRUCTIONS NUM_STRIPES "
    "DOMAIN_NUM_THREADS DEBUG_CPU_TYPE SERVICE_FORCE_INTEL DISABLE_FAST_MM FAST_MEMORY_LIMIT",
    "NCCL_": "ALGO PROTO DEBUG DEBUG_SUBSYS P2P_DISABLE P2P_LEVEL SHM_DISABLE IB_DISABLE NVLS_ENABLE MIN_NCHANNELS "
    "MAX_NCHANNELS MIN_CTAS MAX_CTAS NTHREADS BUFFSIZE LAUNCH_MODE GRAPH_MIXING_SUPPORT CROSS_NIC COLLNET_ENABLE "
    "NET_GDR_LEVEL IGNORE_CPU_AFFINITY CUMEM_ENABLE SOCKET_NTHREADS NSOCKS_PERTHREAD CHECK_POINTERS",
    "OMP_": "NUM_THREADS PROC_BIND PLACES DYNAMIC SCHEDULE WAIT_POLICY MAX_ACTIVE_LEVELS NESTED STACKSIZE THREAD_LIMIT "
    "DISPLAY_ENV DISPLAY_AFFINITY CANCELLATION",
    "ONEDNN_": "VERBOSE DEFAULT_FPMATH_MODE PRIMITIVE_CACHE_CAPACITY CPU_ISA_HINTS",
    "OPENBLAS_": "NUM_THREADS CORETYPE L2_SIZE MAIN_FREE VERBOSE DEFAULT_NUM_THREADS THREAD_TIMEOUT",
    "PYTORCH_": "CUDA_ALLOC_CONF ALLOC_CONF HIP_ALLOC_CONF NO_CUDA_MEMORY_CACHING JIT NVRTC_DISABLE "
    "NVML_BASED_CUDA_CHECK TUNABLEOP_ENABLED TUNABLEOP_TUNING MIOPEN_SUGGEST_NHWC",
    "TCMALLOC_": "MAX_TOTAL_THREAD_CACHE_BYTES RELEASE_RATE LARGE_ALLOC_REPORT_THRESHOLD AGGRESSIVE_DECOMMIT",
    "TF_": "CPP_MIN_LOG_LEVEL CPP_MAX_VLOG_LEVEL CPP_MIN_VLOG_LEVEL ENABLE_ONEDNN_OPTS NUM_INTEROP_THREADS "
    "NUM_INTRAOP_THREADS FORCE_GPU_ALLOW_GROWTH FORCE_UNIFIED_MEMORY GPU_ALLOCATOR GPU_THREAD_MODE GPU_THREAD_COUNT "
    "DETERMINISTIC_OPS CUDNN_DETERMINISTIC CUDNN_USE_AUTOTUNE CUDNN_USE_FRONTEND CUDNN_RESET_RND_GEN_STATE DISABLE_MKL "
    "USE_LEGACY_KERAS XLA_FLAGS ENABLE_TENSOR_FLOAT_32_EXECUTION ENABLE_XLA AUTOTUNE_THRESHOLD "
    "CUDA_HOST_MEM_LIMIT_IN_MB DISABLE_MLIR ENABLE_GPU_GARBAGE_COLLECTION CPU_ALLOCATOR_USE_BFC "
    "DISABLE_SEGMENT_REDUCTION_OP_DETERMINISM_EXCEPTIONS ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE ENABLE_LAYOUT_OPT "
    "XLA_PERSISTENT_CACHE_READ_ONLY GPU_ALLOW_GROWTH",
    "TORCH_": "ALLOW_TF32_CUBLAS_OVERRIDE COMPILE_DISABLE COMPILE_DEBUG CUDNN_V8_API_DISABLED "
    "CUDNN_V8_API_LRU_CACHE_LIMIT CUDNN_USE_HEURISTIC_MODE_B LINALG_PREFER_CUSOLVER BLAS_PREFER_CUBLASLT CPP_LOG_LEVEL "
    "SHOW_CPP_STACKTRACES NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_HIGH_PRIORITY NCCL_AVOID_RECORD_STREAMS "
    "NCCL_NAN_CHECK NCCL_ENABLE_MONITORING DEVICE_BACKEND_AUTOLOAD DONT_CHECK_COMPILER_ABI USE_CUDA_DSA",
    "TORCHDYNAMO_": "DISABLE VERBOSE SUPPRESS_ERRORS CACHE_SIZE_LIMIT RECOMPILE_LIMIT INLINE_INBUILT_NN_MODULES "
    "DYNAMIC_SHAPES CAPTURE_SCALAR_OUTPUTS",
    "TORCHINDUCTOR_": "MAX_AUTOTUNE MAX_AUTOTUNE_GEMM MAX_AUTOTUNE_POINTWISE MAX_AUTOTUNE_GEMM_BACKENDS FREEZING "
    "CUDAGRAPHS CUDAGRAPH_TREES COMPILE_THREADS COORDINATE_DESCENT_TUNING CPP_WRAPPER FORCE_DISABLE_CACHES "
    "FX_GRAPH_CACHE AUTOGRAD_CACHE LAYOUT_OPTIMIZATION FORCE_LAYOUT_OPT BENCHMARK_KERNEL PERMUTE_FUSION "
    "UNIQUE_KERNEL_NAMES WORKER_START SHAPE_PADDING",
    "TRITON_": "ALWAYS_COMPILE INTERPRET DISABLE_LINE_INFO PRINT_AUTOTUNING F32_DEFAULT",
    "XLA_": "FLAGS CLIENT_MEM_FRACTION PYTHON_CLIENT_MEM_FRACTION PYTHON_CLIENT_PREALLOCATE PYTHON_CLIENT_ALLOCATOR "
    "PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE ENABLE_PGLE",
}  # fmt: skip
KNOWN = frozenset(begin + name for begin, names in _NAMES.items() for name in names.split())

_WORDS = (
    "true false yes no on off auto none default enable disable enabled disabled all infinite infinity inf strict "
    "standard warn warning info error fatal trace version abort allow raise cores core threads thread sockets "
    "socket numa_domains ll_caches spread close master primary passive active static dynamic guided monotonic "
    "nonmonotonic compact scatter balanced explicit granularity fine tile verbose respect norespect noverbose "
    "warnings nowarnings proclist reset noreset throughput turnaround serial hier hyper linear tree dist intel gnu "
    "tbb sequential lp64 ilp64 compatible cpu cuda gpu rocm tpu jax tensorflow torch pytorch numpy threefry2x32 rbg "
    "unsafe_rbg gloo mpi nccl highest high tensorfloat32 bfloat16 float32 float16 float64 fp32 fp16 bf16 tf32 any "
    "default_fpmath_mode sse41 avx avx2 avx2_vnni avx512 avx512_core avx512_core_vnni avx512_core_bf16 "
    "avx512_core_fp16 avx512_core_amx avx512_e1 avx512_e4 avx10_1_512 prefer_ymm haswell skylakex zen "
    "sapphirerapids cooperlake ring collnet collnetdirect collnetchain nvls nvlstree pat simple ll ll128 init coll "
    "p2p shm net graph tuning env alloc loc nvl pix pxb phb sys parallel group lazy eager pci_bus_id fastest_first "
    "platform bfc cuda_malloc_async cudamallocasync cuda_async native backend expandable_segments max_split_size_mb "
    "garbage_collection_threshold roundup_power2_divisions pinned_use_cuda_host_register "
    "pinned_num_register_threads per_process_memory_fraction pinned_use_background_threads gpu_private gpu_shared "
    "global aten triton cutlass cpp subprocess fork spawn ieee tf32x3 performant background_thread dirty_decay_ms "
    "muzzy_decay_ms narenas metadata_thp percpu_arena thp always never oversize_threshold lg_tcache_max "
)  # fmt: skip
_NUMBER = r"-?\d{1,12}(?:\.\d{1,9})?(?:e-?\d{1,2})?[bkmgt]?[stcb]?"
_LIBRARY = r"(?:\.\.\./)?lib(?:tcmalloc(?:_minimal)?|jemalloc|mimalloc|iomp5|gomp|omp|hugetlbfs)\.so(?:\.\d{1,3}){0,3}"
_FLAG = r"-{1,2}(?:tf_)?xla_[a-z0-9]{1,20}(?:_[a-z0-9]{1,20}){0,12}|intra_op_parallelism_threads"
_TUNABLE = r"glibc(?:\.[a-z0-9_]{1,40}){1,3}"
_PIECE = f"{_NUMBER}|{'|'.join(sorted(set(_WORDS.split()), key=len, reverse=True))}|{_LIBRARY}|{_TUNABLE}"
_WORD = re.compile(rf"(?:{_FLAG}|{_PIECE})?(?:[,:;=(){{}}\[\]^+-]+(?:{_PIECE})?)*", re.IGNORECASE)

#: Variables whose numbers have colons between them. Elsewhere that is an address or the place of a device.
_PLACES = ("OMP_PLACES", "GOMP_CPU_AFFINITY", "CUBLAS_WORKSPACE_CONFIG")
_PLACE = re.compile(r"(?:[{},+!()-]|:(?!:)|\d{1,6}|cores|threads|sockets|ll_caches|numa_domains)*", re.IGNORECASE)
_ADDRESS = re.compile(r"::|\d\w?:[\da-f]", re.IGNORECASE)

#: Characters of a value, at most.
VALUE_MOST = 1000

LEFT_OUT = "<left out>"


def public_value(name: str, value: str) -> str | None:
    """The value of a variable as it may leave the machine, without words of another form. None for another name."""
    if name not in KNOWN:
        return None
    return " ".join(word if _is_known(name, word) else LEFT_OUT for word in value[:VALUE_MOST].split())


def _is_known(name: str, word: str) -> bool:
    if name in _PLACES:
        return bool(_PLACE.fullmatch(word))
    return bool(_WORD.fullmatch(word)) and not _ADDRESS.search(word)
