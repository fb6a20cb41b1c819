"""A probe that holds the device's memory, all but what it is told to leave, until it is ended.

By CUDA's driver API, so that no framework's allocator has a say (https://docs.nvidia.com/cuda/cuda-driver-api/).
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from tests.cuda.probing import Request


def main() -> None:
    request = Request.read()
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, held = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _ask(cuda.cuInit, 0)
    _ask(cuda.cuDeviceGet, ctypes.byref(device), 0)
    _ask(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(context), device)
    _ask(cuda.cuCtxSetCurrent, context)
    _ask(cuda.cuMemGetInfo_v2, ctypes.byref(free), ctypes.byref(total))
    size = max(0, free.value - request.rest["leave_bytes"])
    if size:
        _ask(cuda.cuMemAlloc_v2, ctypes.byref(held), ctypes.c_size_t(size))
    request.answer("held", found={"held_bytes": size, "free_bytes": free.value, "total_bytes": total.value})
    while True:
        time.sleep(60)


def _ask(call: Any, *arguments: Any) -> None:
    status = call(*arguments)
    if status:
        raise RuntimeError(f"{call.__name__} failed with {status}")


if __name__ == "__main__":
    main()
