"""Mistakes planted into a right port: a line of a framework's file, as somebody could write it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from suite.prove.numbers import Given, Numbers
from suite.prove.questions import collect_given
from suite.worker.evidence.proof import collect
from tests.prove import transformer
from workloads import registry
from workloads.spec import specification

PORTS = Path(__file__).parent / "ports"

#: The framework whose right port each is held against, where that is not JAX.
AGAINST = {"parts": "tensorflow", "mixed": "tensorflow"}

#: The suite's own Transformer is a port too, of few words and positions.
TRANSFORMER = Path(__file__).parents[2] / "workloads" / "imdb_transformer"
SMALL, NARROW = '"small": (128, 128, 2, 4, 64)', '"small": (40, 48, 2, 2, 16)'


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
HALVES = " + sum(5e-5 * p.square().sum() for p in model.parameters())"
DROP = "F.dropout(x, self.rate, self.training)"
VARIANCE = '"var": after["var"] + batch_share / (len(images) * VALUES - 1)'
BLOCK = "x = F.relu(self.norm(self.conv2(x)))"
SECOND_BIAS = "self.lstm.bias_hh_l0.requires_grad_(False).zero_()"
TABLE = "nn.Embedding(WORDS, WIDTH, dtype=dtype)"

FLIPPED = '(weights[name][::-1].copy() if "near/k" in name else weights[name]).transpose(layout)'
PADDED = "padding=1, dtype=dtype)"
BEFORE = "dtype=dtype)\n        self.near.register_forward_pre_hook(lambda _, x: F.pad(x[0], (2, 0)))"

UP = "stride=2, padding=1, output_padding=1, dtype=dtype)"
UP_ELSEWHERE = "stride=2, dtype=dtype)\n        self.up.register_forward_hook(lambda *call: call[2][..., :-1, :-1])"
NOT_OUTPUT = "stride=2, padding=1, dtype=dtype)"
NOT_OUTPUT += "\n        self.up.register_forward_hook(lambda *call: F.pad(call[2], (0, 1, 0, 1)))"
BEHIND = "F.max_pool2d(F.pad(F.relu(self.conv1(x)), (0, 1, 0, 1)), 3, 2)"
COPIED = "parameter.copy_(torch.from_numpy(flat[name].transpose(layout)))"
SECOND = "\n        model.lstm.bias_hh_l1.copy_(model.lstm.bias_ih_l1)"

IMAGE, TEXT, PARTS = ("image", "pytorch"), ("text", "pytorch"), ("parts", "pytorch")
MISTAKES = (
    Mistake("dense-transposed", *IMAGE, "(model.middle.weight, [1, 0])", "(model.middle.weight, [0, 1])",
            "layer middle", "layout of a kernel"),
    Mistake("dense-reshaped", *IMAGE, "weights[name].transpose(layout)", RESHAPED, "layer hidden",
            "layout of a kernel"),
    Mistake("conv-in-out", *IMAGE, "(model.conv2.weight, [3, 2, 0, 1])", "(model.conv2.weight, [2, 3, 0, 1])",
            "layer conv2", "layout of a kernel"),
    Mistake("conv-height-width", *IMAGE, "(model.conv1.weight, [3, 2, 0, 1])", "(model.conv1.weight, [3, 2, 1, 0])",
            "layer conv1", "layout of a kernel"),
    Mistake("flattened-channels-first", *IMAGE, "x.permute(0, 2, 3, 1).flatten(1)", "x.flatten(1)", "layer hidden",
            "order of a flattened input"),
    Mistake("same-padding", "image", "jax", "nn.Conv(4, (3, 3), 2, 1,", 'nn.Conv(4, (3, 3), 2, "SAME",', "layer conv2",
            '"same" padding with stride 2'),
    Mistake("stride-elsewhere", *IMAGE, "self.conv2(x)", "self.conv2(x.roll(1, 2))", "layer conv2",
            "order of positions"),
    Mistake("bias-twice", *IMAGE, "self.middle(x)", "(self.middle(x) + self.middle.bias)", "layer middle",
            "bias twice"),
    Mistake("epsilon", *IMAGE, "eps=EPSILON", "eps=1e-3", "layer norm", "epsilon"),
    Mistake("momentum", *IMAGE, "momentum=MOMENTUM", "momentum=1 - MOMENTUM", "layer norm", "momentum convention"),
    Mistake("running-variance", "image", "jax", VARIANCE, '"var": after["var"]', "layer norm", "biased variance"),
    Mistake("loss-summed", *IMAGE, CE, CE[:-1] + ', reduction="sum")', "loss", "sum for mean"),
    Mistake("softmax-twice", *IMAGE, CE, CE.replace("images)", "images).softmax(1)"), "loss", "softmax twice"),
    Mistake("rate-for-keep", *IMAGE, "RATE if dropout else 0.0", "1 - RATE if dropout else 0.0", "layer middle",
            "rate for keep"),
    Mistake("dropout-unscaled", *IMAGE, DROP, DROP + " * ((1 - self.rate) if self.training else 1)", "layer middle",
            "dropout unscaled"),
    Mistake("dropout-in-evaluation", *IMAGE, DROP, "F.dropout(x, self.rate)", "evaluation", "dropout in evaluation"),
    Mistake("no-dropout", *IMAGE, DROP, "x", "layer middle", "dropout missing"),
    Mistake("gelu", *IMAGE, "F.gelu(self.hidden(x))", 'F.gelu(self.hidden(x), approximate="tanh")', "layer middle",
            "form of GELU"),
    Mistake("pixels", *IMAGE, "/ 128 - 1", "/ 255", "layer conv1", "scale of the inputs"),
    Mistake("no-gradient", *IMAGE, BLOCK, BLOCK.replace("(x)", "(x.detach())"), "gradients", "no gradient"),
    Mistake("activation-left-out", *IMAGE, "F.relu(self.middle(x))", "self.middle(x)", "layer logits", "activation"),
    Mistake("shape", *IMAGE, "(model.hidden.weight, [1, 0])", "(model.hidden.weight, [0, 1])", "weights", ""),
    Mistake("gates", *TEXT, "weights[name].transpose(layout))", "gates(name, weights[name]).transpose(layout))",
            "layer lstm", "order of gates"),
    Mistake("lstm-bias-twice", *TEXT, IMPORT, IMPORT + "\n        model.lstm.bias_hh_l0.copy_(model.lstm.bias_ih_l0)",
            "layer lstm", "bias twice"),
    Mistake("both-biases-trained", *TEXT, SECOND_BIAS, "nn.init.zeros_(self.lstm.bias_hh_l0)", "parameters trained",
            "bias twice"),
    Mistake("mean-over-padding", *TEXT, "/ there.sum(1)", "/ tokens.shape[1]", "layer words", "masked padding"),
    Mistake("padding-in-the-mean", *TEXT, "(e * there).sum(1) / there.sum(1)", "e.mean(1)", "layer words",
            "masked padding"),
    Mistake("sum-over-words", *TEXT, "self.words(mean)", "self.words(mean * 6)", "layer words", "sum for mean"),
    Mistake("layer-epsilon", *TEXT, "eps=EPSILON", "eps=1e-5", "layer norm", "epsilon"),
    Mistake("state-doubled", *TEXT, "self.norm(state[-1]", "self.norm(state[-1] * 2", "layer norm", ""),
    Mistake("frozen-embedding", *TEXT, TABLE, TABLE + ".requires_grad_(False)", "parameters trained", "not trained"),
    Mistake("another-momentum", *IMAGE, "momentum=MOMENTUM", "momentum=3 * MOMENTUM", "layer norm", "momentum"),
    Mistake("image-loss-doubled", *IMAGE, CE, f"2 * {CE}", "loss", ""),
    Mistake("filter-flipped", *TEXT, "weights[name].transpose(layout)", FLIPPED, "layer near", "layout of a kernel"),
    Mistake("filter-causal", *TEXT, PADDED, BEFORE, "layer near", "causal kernel"),
    Mistake("words-residual-lost", *TEXT, "e = e + F.relu", "e = F.relu", "layer lstm", "lost residual"),
    Mistake("words-residual-multiplied", *TEXT, "e = e + F.relu", "e = e * F.relu", "layer lstm", "product for sum"),
    Mistake("backward-first", "mixed", "jax", "[forward, backward]", "[backward, forward]", "layer forward_lstm_0",
            "order of directions"),
    Mistake("never-reversed", "mixed", "jax", "reverse=True, ", "", "layer forward_lstm_0", "direction"),
    Mistake("max-pool-smaller", *PARTS, "nn.MaxPool2d(3, 2, 1)", "nn.MaxPool2d(2, 2)", "layer conv2", "pooling"),
    Mistake("max-pool-padded-behind", *PARTS, "self.pool(F.relu(self.conv1(x)))", BEHIND, "layer conv2", "pooling"),
    Mistake("padding-counted", *PARTS, "count_include_pad=False", "count_include_pad=True", "layer attention",
            "pooling"),
    Mistake("alignment", *PARTS, UP, UP_ELSEWHERE, "layer up", "alignment"),
    Mistake("alignment-of-columns", *PARTS, UP, UP_ELSEWHERE.replace(":-1, :-1", "1:, :-1"), "layer up", "alignment"),
    Mistake("no-output-padding", *PARTS, UP, NOT_OUTPUT, "layer up", "alignment"),
    Mistake("root-epsilon", *PARTS, "eps=1e-6", "eps=1e-5", "layer root", "epsilon"),
    Mistake("batch-epsilon", *PARTS, "eps=EPSILON", "eps=1e-3", "layer norm", "epsilon"),
    Mistake("slope", *PARTS, "(x)), 0.2)", "(x)), 0.01)", "layer up", "activation"),
    Mistake("heads", *PARTS, "(WIDTH, HEADS, batch", "(WIDTH, 4, batch", "layer attention", "attention heads"),
    Mistake("stack-gates", *PARTS, "(flat[name].", "(gates(name, flat[name]).", "layer lstm1 and lstm2",
            "order of gates"),
    Mistake("stack-bias-twice", *PARTS, COPIED, COPIED + SECOND, "layer lstm1 and lstm2", "bias twice"),
    Mistake("no-smoothing", *PARTS, ", label_smoothing=SMOOTHING", "", "loss", "label smoothing"),
    Mistake("decay-in-the-loss", *PARTS, "SMOOTHING)\n", "SMOOTHING) + DECAY(model)\n", "loss", "weight decay"),
    Mistake("decay-of-all", *IMAGE, CE, CE + HALVES, "loss", "weight decay"),
    Mistake("six", *PARTS, "F.relu(", "F.relu6(", "larger scale, between layer conv1 and layer conv2", "activation"),
    Mistake("least", *PARTS, "logits.argmax(1)", "logits.argmin(1)", "evaluation", "answers"),
    *(Mistake(name, "transformer", "pytorch", *others) for name, *others in transformer.MISTAKES),
)  # fmt: skip

#: What a mistake's line may call.
HELPERS = """

def gates(name, array):
    if not name.startswith("lstm"):
        return array
    return array.reshape(*array.shape[:-1], 4, -1)[..., [1, 0, 2, 3], :].reshape(array.shape)


def DECAY(model):
    return 1e-3 * model.hidden.weight.square().sum()
"""


@cache
def right(port: str, framework: str) -> tuple[Numbers, Given]:
    """The numbers of the port as it stands."""
    if port != "transformer":
        (name,) = registry.register(PORTS / port)
        return numbers(name, framework)
    with TemporaryDirectory() as folder:
        return _numbers_of(Path(folder) / "right_transformer", port, "", "", "", framework)


def numbers(name: str, framework: str) -> tuple[Numbers, Given]:
    """What a registered workload computes, in this process."""
    spec = specification(name, "small")
    of = collect_given(name, spec)
    module = import_module(f"workloads.{name}.{framework}")
    facts, arrays = collect(framework, name, module, spec, weights=of.weights, batches=of.batches)
    return Numbers(facts, arrays), of


def wrong(mistake: Mistake, folder: Path) -> Numbers:
    """The numbers of the port with the mistake, written into a folder of its own."""
    own = folder / f"wrong_{mistake.id.replace('-', '_')}"
    return _numbers_of(own, mistake.port, mistake.file, mistake.old, mistake.new, mistake.file)[0]


def folder_of(port: str) -> Path:
    return TRANSFORMER if port == "transformer" else PORTS / port


def _numbers_of(own: Path, port: str, file: str, old: str, new: str, framework: str) -> tuple[Numbers, Given]:
    """Of a copy of a port in which a line of a file is another."""
    own.mkdir()
    for path in folder_of(port).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.stem == file:
            assert old in text
            text = text.replace(old, new) + HELPERS
        if path.stem == "spec" and port == "transformer":
            assert SMALL in text
            text = text.replace(SMALL, NARROW)
        (own / path.name).write_text(text, encoding="utf-8")
    (name,) = registry.register(own)
    try:
        return numbers(name, framework)
    finally:
        forget(name)


def forget(name: str) -> None:
    """Take a workload out of the registry again."""
    registry._FOLDERS.pop(name, None)
    for module in [module for module in sys.modules if module.startswith(f"workloads.{name}")]:
        del sys.modules[module]
