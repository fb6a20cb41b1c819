"""How the GPUs of a host are linked, by NVML: PCIe, NVLink, and the NUMA nodes that they are near to.

Read once, outside of anything that is measured: `links` says it in lines for a record, `losses` what costs bandwidth. A
part that a driver, a container or MIG does not provide is left out, never guessed.

Many GPUs lower the generation of their PCIe link while they are idle, so a current generation below the highest is no
fault by itself; a width is one.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (device queries, NVLink, topology).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    10: ("through one PCIe switch", True),
    20: ("through several PCIe switches", True),
    30: ("through the host bridge", True),
    40: ("through the processor", True),
    50: ("through two NUMA nodes", False),
}

# Values of NVML's enumerations, which older bindings name otherwise.
_CAPS_NVLINK, _STATUS_OK, _SCOPE_NODE = 2, 0, 0


@dataclass(frozen=True)
class Loss:
    """Something that costs bandwidth, and how to mend it. One that is not ``certain`` may be as it should."""

    words: str
    mend: str
    certain: bool = True


class _Link:
    """What links one GPU with its host; None or empty where NVML does not say.

    The PCIe link now, the highest that GPU and host reach together, and the highest of the GPU itself.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.generation = _ask(gpu, "nvmlDeviceGetCurrPcieLinkGeneration")
        self.generation_most = _ask(gpu, "nvmlDeviceGetMaxPcieLinkGeneration")
        self.generation_of_gpu = _ask(gpu, "nvmlDeviceGetGpuMaxPcieLinkGeneration")
        self.width = _ask(gpu, "nvmlDeviceGetCurrPcieLinkWidth")
        self.width_most = _ask(gpu, "nvmlDeviceGetMaxPcieLinkWidth")
        mask = _ask(gpu, "nvmlDeviceGetMemoryAffinity", NODE_WORDS, _SCOPE_NODE) or ()
        self.nodes = [64 * at + bit for at, word in enumerate(mask) for bit in range(64) if word >> bit & 1]
        states = [_ask(gpu, "nvmlDeviceGetNvLinkState", link) for link in range(NVLINKS_MOST)]
        self.nvlinks = [bool(state) for state in states if state is not None]

    def __str__(self) -> str:
        """For example ``PCIe 4.0 x16 (at most 5.0 x16), NUMA node 0, 18 of 18 NVLinks``; empty if nothing is known."""
        now, most = _pcie(self.generation, self.width), _pcie(self.generation_most, self.width_most)
        words = [f"PCIe {now}" + (f" (at most {most})" if most not in ("", now) else "")] if now else []
        words += [f"NUMA node {'+'.join(map(str, self.nodes))}"] if self.nodes else []
        words += [f"{sum(self.nvlinks)} of {len(self.nvlinks)} NVLinks"] if self.nvlinks else []
        return ", ".join(words)


def links(gpus: Sequence[Gpu]) -> list[str]:
    """How the GPUs are linked, a line for each GPU and for each two of them: ``links`` of a record's ranks.

    GPUs are counted as the process counts them, from 0. Empty without a GPU or where NVML says nothing.
    """
    own = [f"GPU {number}: {words}" for number, gpu in enumerate(gpus) if (words := str(_Link(gpu)))]
    return own + [words for words, _ in _paths(gpus)]


def losses(gpus: Sequence[Gpu]) -> list[Loss]:
    """What costs bandwidth between these GPUs and their host."""
    lost = [loss for number, gpu in enumerate(gpus) for loss in _losses_of(f"GPU {number}", _Link(gpu))]
    mend = "choose GPUs of one node in CUDA_VISIBLE_DEVICES; nvidia-smi topo -m shows them"
    why = "so what they exchange crosses the link between the processors"
    return lost + [Loss(f"{words}, {why}", mend) for words, near in _paths(gpus) if not near]


def _losses_of(name: str, link: _Link) -> Iterator[Loss]:
    now, most, own = link.generation, link.generation_most, link.generation_of_gpu
    if link.width and link.width_most and link.width < link.width_most:
        words = f"{name}: PCIe runs with {link.width} of {link.width_most} lanes"
        yield Loss(words, "reseat the card, or use a slot that shares its lanes with no other")
    if down := link.nvlinks.count(False):
        words = f"{name}: {down} of {len(link.nvlinks)} NVLinks are down"
        yield Loss(words, "nvidia-smi nvlink --status names them; check the bridge or the fabric manager")
    if most and own and most < own:
        words = f"{name}: its slot offers PCIe {most}.0, and the GPU has {own}.0"
        yield Loss(words, "use a slot of the GPU's generation, or raise the limit in the firmware", certain=False)
    if now and most and now < most:
        words = f"{name}: PCIe is at {now}.0 of {most}.0 now; many GPUs lower it while they are idle"
        mend = "look again under load: nvidia-smi --query-gpu=pcie.link.gen.current --format=csv"
        yield Loss(words, mend, certain=False)


def _paths(gpus: Sequence[Gpu]) -> Iterator[tuple[str, bool]]:
    """What lies between each two GPUs, and whether it is within one NUMA node, where NVML says it."""
    for (first, gpu), (second, peer) in combinations(enumerate(gpus), 2):
        level = _ask(gpu, "nvmlDeviceGetTopologyCommonAncestor", peer.handle)
        words, near = TOPOLOGY.get(level, ("", True))
        if _ask(gpu, "nvmlDeviceGetP2PStatus", peer.handle, _CAPS_NVLINK) == _STATUS_OK:
            words, near = "NVLink", True
        if words:
            yield f"GPU {first} to GPU {second}: {words}", near


def _pcie(generation: int | None, width: int | None) -> str:
    words = [f"{generation}.0" if generation else "", f"x{width}" if width else ""]
    return " ".join(filter(None, words))


def _ask(gpu: Gpu, call: str, *arguments: Any) -> Any:
    """The answer; None if the binding, the driver or the device has none."""
    with contextlib.suppress(Exception):
        return gpu.ask(call, *arguments)
    return None
