"""Mistakes planted into a right port: a line of a framework's file, as somebody could write it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from suite.prove.asked import drawn
from suite.prove.numbers import Given, Numbers
from suite.worker.proof import collect
from workloads import registry
from workloads.data.augment import Batches, evaluation_batches
from workloads.data.own import data_of
from workloads.spec import specification

PORTS = Path(__file__).parent / "ports"


@dataclass(frozen=True)
class Mistake:
    """``old`` becomes ``new`` in a file of a port.

    ``place`` and ``cause`` are what must be said; ``cause`` is empty where no known one is behind it.
    """

    id: str
    port: str
    file: str
    old: str
    new: str
    place: str
    cause: str


IMPORT = "parameter.copy_(torch.from_numpy(weights[name].transpose(layout)))"
RESHAPED = '(weights[name].reshape(8, 64) if "hidden/k" in name else weights[name].transpose(layout))'
CE = "F.cross_entropy(model(images), labels.long())"
DROP = "F.dropout(x, self.rate, self.training)"
VARIANCE = '"var": after["var"] + batch_share / (len(images) * VALUES - 1)'
BLOCK = "x = F.relu(self.norm(self.conv2(x)))"
SECOND_BIAS = "self.lstm.bias_hh_l0.requires_grad_(False).zero_()"
TABLE = "nn.Embedding(WORDS, WIDTH, dtype=dtype)"

IMAGE, TEXT = ("image", "pytorch"), ("text", "pytorch")
MISTAKES = (
    Mistake(
        "dense-transposed",
        *IMAGE,
        "(model.middle.weight, [1, 0])",
        "(model.middle.weight, [0, 1])",
        "layer middle",
        "layout of a kernel",
    ),
    Mistake(
        "dense-reshaped", *IMAGE, "weights[name].transpose(layout)", RESHAPED, "layer hidden", "layout of a kernel"
    ),
    Mistake(
        "conv-in-out",
        *IMAGE,
        "(model.conv2.weight, [3, 2, 0, 1])",
        "(model.conv2.weight, [2, 3, 0, 1])",
        "layer conv2",
        "layout of a kernel",
    ),
    Mistake(
        "conv-height-width",
        *IMAGE,
        "(model.conv1.weight, [3, 2, 0, 1])",
        "(model.conv1.weight, [3, 2, 1, 0])",
        "layer conv1",
        "layout of a kernel",
    ),
    Mistake(
        "flattened-channels-first",
        *IMAGE,
        "x.permute(0, 2, 3, 1).flatten(1)",
        "x.flatten(1)",
        "layer hidden",
        "order of a flattened input",
    ),
    Mistake(
        "same-padding",
        "image",
        "jax",
        "nn.Conv(4, (3, 3), 2, 1,",
        'nn.Conv(4, (3, 3), 2, "SAME",',
        "layer conv2",
        '"same" padding with stride 2',
    ),
    Mistake("stride-elsewhere", *IMAGE, "self.conv2(x)", "self.conv2(x.roll(1, 2))", "layer conv2", ""),
    Mistake(
        "bias-twice", *IMAGE, "self.middle(x)", "(self.middle(x) + self.middle.bias)", "layer middle", "bias twice"
    ),
    Mistake("epsilon", *IMAGE, "eps=EPSILON", "eps=1e-3", "layer norm", "epsilon"),
    Mistake("momentum", *IMAGE, "momentum=MOMENTUM", "momentum=1 - MOMENTUM", "layer norm", "momentum convention"),
    Mistake("running-variance", "image", "jax", VARIANCE, '"var": after["var"]', "layer norm", "biased variance"),
    Mistake("loss-summed", *IMAGE, CE, CE[:-1] + ', reduction="sum")', "loss", "sum for mean"),
    Mistake("softmax-twice", *IMAGE, CE, CE.replace("images)", "images).softmax(1)"), "loss", "softmax twice"),
    Mistake(
        "rate-for-keep",
        *IMAGE,
        "RATE if dropout else 0.0",
        "1 - RATE if dropout else 0.0",
        "layer middle",
        "dropout convention",
    ),
    Mistake(
        "dropout-unscaled",
        *IMAGE,
        DROP,
        DROP + " * ((1 - self.rate) if self.training else 1)",
        "layer middle",
        "dropout convention",
    ),
    Mistake("dropout-in-evaluation", *IMAGE, DROP, "F.dropout(x, self.rate)", "evaluation", "dropout convention"),
    Mistake("no-dropout", *IMAGE, DROP, "x", "layer middle", "dropout convention"),
    Mistake(
        "gelu",
        *IMAGE,
        "F.gelu(self.hidden(x))",
        'F.gelu(self.hidden(x), approximate="tanh")',
        "layer middle",
        "form of GELU",
    ),
    Mistake("pixels", *IMAGE, "/ 128 - 1", "/ 255", "layer conv1", "scale of the inputs"),
    Mistake("no-gradient", *IMAGE, BLOCK, BLOCK.replace("(x)", "(x.detach())"), "gradients", "no gradient"),
    Mistake("activation-left-out", *IMAGE, "F.relu(self.middle(x))", "self.middle(x)", "layer logits", ""),
    Mistake("shape", *IMAGE, "(model.hidden.weight, [1, 0])", "(model.hidden.weight, [0, 1])", "weights", ""),
    Mistake(
        "gates",
        *TEXT,
        "weights[name].transpose(layout))",
        "gates(name, weights[name]).transpose(layout))",
        "layer lstm",
        "order of gates",
    ),
    Mistake(
        "lstm-bias-twice",
        *TEXT,
        IMPORT,
        IMPORT + "\n        model.lstm.bias_hh_l0.copy_(model.lstm.bias_ih_l0)",
        "layer lstm",
        "bias twice",
    ),
    Mistake(
        "both-biases-trained",
        *TEXT,
        SECOND_BIAS,
        "nn.init.zeros_(self.lstm.bias_hh_l0)",
        "parameters trained",
        "bias twice",
    ),
    Mistake("mean-over-padding", *TEXT, "/ there.sum(1)", "/ tokens.shape[1]", "layer words", "masked padding"),
    Mistake(
        "padding-in-the-mean", *TEXT, "(e * there).sum(1) / there.sum(1)", "e.mean(1)", "layer words", "masked padding"
    ),
    Mistake("sum-over-words", *TEXT, "self.words(mean)", "self.words(mean * 6)", "layer words", "sum for mean"),
    Mistake("layer-epsilon", *TEXT, "eps=EPSILON", "eps=1e-5", "layer norm", "epsilon"),
    Mistake("state-doubled", *TEXT, "self.norm(state[-1]", "self.norm(state[-1] * 2", "layer norm", ""),
    Mistake("frozen-embedding", *TEXT, TABLE, TABLE + ".requires_grad_(False)", "parameters trained", "not trained"),
)

#: What a mistake's line may call.
HELPERS = """

def gates(name, array):
    if not name.startswith("lstm/"):
        return array
    return array.reshape(*array.shape[:-1], 4, -1)[..., [1, 0, 2, 3], :].reshape(array.shape)
"""


@cache
def right(port: str, framework: str) -> tuple[Numbers, Given]:
    """The numbers of the port as it stands."""
    (name,) = registry.register(PORTS / port)
    return numbers(name, framework)


def numbers(name: str, framework: str) -> tuple[Numbers, Given]:
    """What a registered workload computes, in this process."""
    spec = specification(name, "small")
    data = data_of(name)
    length = getattr(spec, "length", None)
    source = Batches(data, 8, 7, length)
    inputs, labels, _ = next(iter(evaluation_batches(data, 8, length)))
    given = Given(drawn(spec), [source[0], source[1], source[2], (inputs, labels)])
    module = import_module(f"workloads.{name}.{framework}")
    facts, arrays = collect(framework, name, module, spec, weights=given.weights, batches=given.batches)
    return Numbers(facts, arrays), given


def wrong(mistake: Mistake, folder: Path) -> Numbers:
    """The numbers of the port with the mistake, written into a folder of its own."""
    own = folder / f"wrong_{mistake.id.replace('-', '_')}"
    own.mkdir()
    for path in (PORTS / mistake.port).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.stem == mistake.file:
            assert mistake.old in text
            text = text.replace(mistake.old, mistake.new) + HELPERS
        (own / path.name).write_text(text, encoding="utf-8")
    (name,) = registry.register(own)
    try:
        return numbers(name, mistake.file)[0]
    finally:
        forget(name)


def forget(name: str) -> None:
    """Take a workload out of the registry again."""
    registry._FOLDERS.pop(name, None)
    for module in [module for module in sys.modules if module.startswith(f"workloads.{name}")]:
        del sys.modules[module]
