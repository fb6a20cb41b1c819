"""How the GPUs of a host are linked, by NVML: PCIe, NVLink, and the NUMA nodes that they are near to.

`connections` and `paths` read it once, outside of anything that is measured; `links` says it in lines for a record,
and `losses` what costs bandwidth. A part that a driver, a container or MIG does not provide is left out, never guessed.

Many GPUs lower the generation of their PCIe link while they are idle, so a current generation below the highest is no
fault by itself; a width is one.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (device queries, NVLink, topology).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

from suite.monitor.gpu import Gpu

#: NVLinks of one GPU, at most: those beyond its own number are refused.
NVLINKS_MOST = 36
#: 64-bit words of a mask of NUMA nodes; Linux has at most 1024 nodes.
NODE_WORDS = 16

#: What lies between two GPUs that are not linked by NVLink, by `nvmlGpuTopologyLevel_t`, and whether it is within one
#: NUMA node.
TOPOLOGY = {
    0: ("on one board", True),
    10: ("one PCIe switch", True),
    20: ("several PCIe switches", True),
    30: ("the host bridge", True),
    40: ("the processor", True),
    50: ("two NUMA nodes", False),
}

# Values of NVML's enumerations, which older bindings name otherwise.
_CAPS_NVLINK, _STATUS_OK, _SCOPE_NODE = 2, 0, 0


@dataclass(frozen=True)
class Connection:
    """What links one GPU with its host; None or empty where NVML does not say.

    ``generation`` and ``width`` are those of the PCIe link now. ``generation_most`` and ``width_most`` are the highest
    that GPU and host reach together, ``generation_of_gpu`` the highest of the GPU itself. ``nodes`` are the NUMA nodes
    that it is near to. Of ``nvlinks`` links, ``nvlinks_up`` are active.
    """

    generation: int | None = None
    generation_most: int | None = None
    generation_of_gpu: int | None = None
    width: int | None = None
    width_most: int | None = None
    nodes: tuple[int, ...] = ()
    nvlinks: int = 0
    nvlinks_up: int = 0

    def __str__(self) -> str:
        """For example ``PCIe 4.0 x16 (at most 5.0 x16), NUMA node 0, 18 of 18 NVLinks``; empty if nothing is known."""
        now, most = _pcie(self.generation, self.width), _pcie(self.generation_most, self.width_most)
        words = [f"PCIe {now}" + (f" (at most {most})" if most not in ("", now) else "")] if now else []
        words += [f"NUMA node {'+'.join(map(str, self.nodes))}"] if self.nodes else []
        words += [f"{self.nvlinks_up} of {self.nvlinks} NVLinks"] if self.nvlinks else []
        return ", ".join(words)


@dataclass(frozen=True)
class Path:
    """What lies between the GPUs of these two numbers: NVLink, else the place in `TOPOLOGY`."""

    first: int
    second: int
    words: str
    near: bool

    def __str__(self) -> str:
        return f"GPU {self.first} to GPU {self.second}: {self.words}"


@dataclass(frozen=True)
class Loss:
    """Something that costs bandwidth, and how to mend it. One that is not ``certain`` may be as it should."""

    words: str
    mend: str
    certain: bool = True


def connections(gpus: Sequence[Gpu]) -> list[Connection]:
    """The connection of each GPU with its host, in their order."""
    return [_connection(gpu) for gpu in gpus]


def paths(gpus: Sequence[Gpu]) -> list[Path]:
    """What lies between each two GPUs, where NVML says it."""
    each_two = (_path(*pair) for pair in combinations(enumerate(gpus), 2))
    return [path for path in each_two if path]


def links(gpus: Sequence[Gpu]) -> list[str]:
    """How the GPUs are linked, a line for each GPU and for each two of them: ``links`` of a record's ranks.

    GPUs are counted as the process counts them, from 0. Empty without a GPU or where NVML says nothing.
    """
    own = [f"GPU {number}: {each}" for number, each in enumerate(connections(gpus)) if str(each)]
    return own + list(map(str, paths(gpus)))


def losses(gpus: Sequence[Gpu]) -> list[Loss]:
    """What costs bandwidth between these GPUs and their host."""
    lost = [loss for number, each in enumerate(connections(gpus)) for loss in _losses_of(number, each)]
    for path in paths(gpus):
        if not path.near:
            words = f"{path}, so what they exchange crosses the link between the processors"
            lost.append(Loss(words, "choose GPUs of one node in CUDA_VISIBLE_DEVICES; nvidia-smi topo -m shows them"))
    return lost


def _losses_of(number: int, link: Connection) -> Iterator[Loss]:
    now, most, own = link.generation, link.generation_most, link.generation_of_gpu
    if link.width and link.width_most and link.width < link.width_most:
        words = f"GPU {number}: PCIe runs with {link.width} of {link.width_most} lanes"
        yield Loss(words, "reseat the card, or use a slot that shares its lanes with no other")
    if link.nvlinks_up < link.nvlinks:
        words = f"GPU {number}: {link.nvlinks - link.nvlinks_up} of {link.nvlinks} NVLinks are down"
        yield Loss(words, "nvidia-smi nvlink --status names them; check the bridge or the fabric manager")
    if most and own and most < own:
        words = f"GPU {number}: its slot offers PCIe {most}.0, and the GPU has {own}.0"
        yield Loss(words, "use a slot of the GPU's generation, or raise the limit in the firmware", certain=False)
    if now and most and now < most:
        words = f"GPU {number}: PCIe is at {now}.0 of {most}.0 now; many GPUs lower it while they are idle"
        mend = "look again under load: nvidia-smi --query-gpu=pcie.link.gen.current --format=csv"
        yield Loss(words, mend, certain=False)


def _pcie(generation: int | None, width: int | None) -> str:
    words = [f"{generation}.0" if generation else "", f"x{width}" if width else ""]
    return " ".join(filter(None, words))


def _connection(gpu: Gpu) -> Connection:
    up = _nvlinks(gpu)
    return Connection(
        generation=_number(gpu, "nvmlDeviceGetCurrPcieLinkGeneration"),
        generation_most=_number(gpu, "nvmlDeviceGetMaxPcieLinkGeneration"),
        generation_of_gpu=_number(gpu, "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        width=_number(gpu, "nvmlDeviceGetCurrPcieLinkWidth"),
        width_most=_number(gpu, "nvmlDeviceGetMaxPcieLinkWidth"),
        nodes=_nodes(gpu),
        nvlinks=len(up),
        nvlinks_up=sum(up),
    )


def _path(one: tuple[int, Gpu], other: tuple[int, Gpu]) -> Path | None:
    (first, gpu), (second, peer) = one, other
    nvlink = _ask(lambda: gpu.ask("nvmlDeviceGetP2PStatus", peer.handle, _CAPS_NVLINK))
    if nvlink is not None and int(nvlink) == _STATUS_OK:
        return Path(first, second, "NVLink", near=True)
    level = _ask(lambda: gpu.ask("nvmlDeviceGetTopologyCommonAncestor", peer.handle))
    if level is None or int(level) not in TOPOLOGY:
        return None
    words, near = TOPOLOGY[int(level)]
    return Path(first, second, words if int(level) == 0 else f"through {words}", near)


def _nvlinks(gpu: Gpu) -> list[bool]:
    """Whether each NVLink is active; empty without any."""
    states = (_ask(partial(gpu.ask, "nvmlDeviceGetNvLinkState", link)) for link in range(NVLINKS_MOST))
    return [bool(state) for state in states if state is not None]


def _nodes(gpu: Gpu) -> tuple[int, ...]:
    """The NUMA nodes near to the GPU, from a mask of 64 nodes per word."""
    mask = _ask(lambda: list(gpu.ask("nvmlDeviceGetMemoryAffinity", NODE_WORDS, _SCOPE_NODE)))
    return tuple(64 * at + bit for at, word in enumerate(mask or ()) for bit in range(64) if word >> bit & 1)


def _number(gpu: Gpu, call: str) -> int | None:
    value = _ask(lambda: gpu.ask(call))
    return int(value) if value else None


def _ask(question: Callable[[], Any]) -> Any:
    """The answer; None if the binding, the driver or the device has none."""
    with contextlib.suppress(Exception):
        return question()
    return None
