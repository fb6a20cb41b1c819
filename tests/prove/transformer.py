"""Mistakes planted into the suite's own Transformer, as somebody could write them in a port of it."""

from __future__ import annotations

BLOCK_DROPOUT = "self.dropout = nn.Dropout(spec.dropout if dropout else 0)\n\n"
WORD_DROPOUT = "self.dropout = nn.Dropout(spec.dropout if dropout else 0)\n        self.blocks"
RATE = "spec.dropout if"
ATTEND = "x = x + self.dropout(self.projection(self.attend(self.attention(self.norm1(x)), words)))"
LEARN = "return x + self.dropout(self.output(F.gelu(self.hidden(self.norm2(x)))))"
FUSED = "F.scaled_dot_product_attention(query, key, value, attn_mask=words)"
KERNEL = f"""if self.kernel == "fused":
            attended = {FUSED}
        else:"""
SCORES = "(query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5)"
CLIPPED = f"{SCORES}.clamp(max=0.1)"
LOSS = "import binary_loss as loss"
DOUBLED = "import binary_loss as own\nloss = lambda model, *batch: own(lambda inputs: 2 * model(inputs), *batch)"
WEIGHTS = f"{SCORES}.masked_fill(~words, -1e300).softmax(-1)"
SPLIT = "(part.view(batch, positions, self.heads, -1).transpose(1, 2) for part in parts)"
WORDS = "self.dropout(self.words(tokens) + places"
SUM = "self.words(tokens) + places"
PARTS = "query, key, value = (part"
MEAN = "mean = (self.norm(x) * counted).sum(1) / counted.sum(1)"
BRANCH = "y = self.projection(self.attend(self.attention(self.norm1(x)), words))\n        x = x + y * self.dropout("
CAUSAL = "words & torch.ones(words.shape[-1], words.shape[-1], dtype=torch.bool).tril()"
PROJECTION, OUTPUT, LOGITS = "layer block1_projection", "layer block1_output", "layer logits"


def formula(attended: str) -> str:
    """The attention written out, whatever its kernel."""
    return f"if True:\n            attended = {attended}\n        else:"


#: Name, line, what it becomes, the layer that must be named, and the cause; none where no known one is behind it.
MISTAKES = (
    ("rate", BLOCK_DROPOUT, BLOCK_DROPOUT.replace(RATE, "0.9 if"), "layer block1_norm2", "rate for keep"),
    ("another-rate", BLOCK_DROPOUT, BLOCK_DROPOUT.replace(RATE, "0.3 if"), "layer block1_norm2", "rate of dropout"),
    ("none-in-blocks", BLOCK_DROPOUT, "self.dropout = nn.Identity()\n\n", "layer block1_norm2", "dropout missing"),
    ("none-in-a-branch", LEARN, LEARN.replace("self.dropout", ""), "layer block2_norm1", "dropout missing"),
    ("none-on-words", "x = self.dropout(", "x = (", "layer block1_norm1", "dropout missing"),
    ("rate-on-words", WORD_DROPOUT, WORD_DROPOUT.replace(RATE, "0.9 if"), "layer block1_norm1", "rate for keep"),
    ("unscaled", ATTEND, ATTEND.replace("self.dropout(", "(1 - self.dropout.p * self.training) * self.dropout("),
     "layer block1_norm2", "dropout unscaled"),
    ("shared-by-samples", ATTEND, BRANCH + "torch.ones_like(y[:1]))", "layer block1_norm2", "shared draws"),
    ("shared-by-positions", ATTEND, BRANCH + "torch.ones_like(y[:, :1]))", "layer block1_norm2", "shared draws"),
    ("one-seed", ATTEND, "torch.manual_seed(3)\n        " + ATTEND, "layer block1_norm1", "shared draws"),
    ("dropout-after-the-sum", ATTEND, "x = self.dropout(x + " + ATTEND.removeprefix("x = x + self.dropout("),
     "layer block1_norm2", "place of dropout"),
    ("dropout-before-the-projection", ATTEND,
     "x = x + self.projection(self.dropout(self.attend(self.attention(self.norm1(x)), words)))", PROJECTION,
     "place of dropout"),
    ("dropout-in-the-branch", LEARN, "return x + self.output(self.dropout(F.gelu(self.hidden(self.norm2(x)))))", OUTPUT,
     "place of dropout"),
    ("dropout-before-the-activation", LEARN, "return x + self.output(F.gelu(self.dropout(self.hidden(self.norm2(x)))))",
     OUTPUT, "place of dropout"),
    ("dropout-of-words-alone", WORDS, "(self.dropout(self.words(tokens)) + places",
     "layer block1_norm1", "place of dropout"),
    ("dropout-on-weights", KERNEL, formula(f"self.dropout({WEIGHTS}) @ value"), PROJECTION, ""),
    ("dropout-before-logits", "self.logits(mean)", "self.logits(self.dropout(mean))", LOGITS, ""),
    ("no-mask", "attn_mask=words", "attn_mask=None", PROJECTION, "attention mask"),
    ("causal", "attn_mask=words", f"attn_mask={CAUSAL}", PROJECTION, "attention mask"),
    ("mean-of-all", "words[:, :, None].to", "torch.ones_like(words[:, :, None]).to", LOGITS, "masked padding"),
    ("sum-of-words", MEAN, MEAN.removesuffix(" / counted.sum(1)"), LOGITS, "pooling"),
    ("first-word", MEAN, "mean = self.norm(x)[:, 0]", LOGITS, "pooling"),
    ("maximum", MEAN, 'mean = self.norm(x).masked_fill(counted == 0, float("-inf")).amax(1)', LOGITS, "pooling"),
    ("positions-shifted", SUM, SUM + ".roll(1, 0)", "layer block1_norm1", "positions"),
    ("positions-reversed", SUM, SUM + ".flip(0)", "layer block1_norm1", "positions"),
    ("no-positions", SUM, "self.words(tokens)", "layer block1_norm1", "positions"),
    ("words-scaled", SUM, SUM.replace(")", ") * 4", 1), "layer block1_norm1", "scaled embedding"),
    ("sum-scaled", SUM, f"({SUM}) * 4", "layer block1_norm1", "scaled embedding"),
    ("words-tripled", SUM, SUM.replace(")", ") * 3", 1), "layer block1_norm1", ""),
    ("queries-for-keys", PARTS, "key, query, value = (part", PROJECTION, "swapped projections"),
    ("keys-for-values", PARTS, "query, value, key = (part", PROJECTION, "swapped projections"),
    ("head-by-head", SPLIT, "projected.view(batch, positions, self.heads, 3, -1).permute(3, 0, 2, 1, 4)", PROJECTION,
     "attention heads"),
    ("heads-not-moved", "attended.transpose(1, 2)", "attended", PROJECTION, "attention heads"),
    ("twice-the-heads", SPLIT, SPLIT.replace("self.heads", "2 * self.heads"), PROJECTION, "attention heads"),
    ("no-temperature", FUSED, FUSED[:-1] + ", scale=1.0)", PROJECTION, "temperature"),
    ("temperature-of-the-width", FUSED, FUSED[:-1] + ", scale=(self.heads * query.shape[-1]) ** -0.5)", PROJECTION,
     "temperature"),
    ("softmax-over-queries", KERNEL, formula(f"{WEIGHTS[:-3]}-2) @ value"), PROJECTION, "softmax axis"),
    ("softmax-over-heads", KERNEL, formula(f"{WEIGHTS[:-3]}1) @ value"), PROJECTION, "softmax axis"),
    ("mask-after-softmax", KERNEL, formula(f"({SCORES}.softmax(-1) * words) @ value"), PROJECTION, ""),
    ("clipped-scores", KERNEL, formula(f"{WEIGHTS.replace(SCORES, CLIPPED)} @ value"), PROJECTION, ""),
    ("no-mask-and-no-temperature", FUSED, "F.scaled_dot_product_attention(query, key, value, scale=1.0)", PROJECTION,
     ""),
    ("first-residual-lost", ATTEND, ATTEND.replace("x = x + ", "x = "), "layer block1_norm2", "lost residual"),
    ("second-residual-lost", LEARN, LEARN.replace("x + ", "", 1), "layer block2_norm1", "lost residual"),
    ("residual-of-the-norm", ATTEND, "x = self.norm1(x)\n        " + ATTEND.replace("self.norm1(x)", "x"),
     "layer block1_norm2", "another residual"),
    ("relu", "F.gelu(", "F.relu(", OUTPUT, "activation"),
    ("silu", "F.gelu(", "F.silu(", OUTPUT, "activation"),
    ("gelu-by-the-tangent", "self.norm2(x))", "self.norm2(x)), approximate='tanh'", OUTPUT, "form of GELU"),
    ("half-a-branch", LEARN, LEARN.replace("x + ", "x + 0.5 * "), "layer block2_norm1", ""),
    ("last-norm-left-out", "self.norm(x)", "x", LOGITS, ""),
    ("parallel-blocks", LEARN, LEARN.replace("norm2", "norm1"), "layer block1_norm1", ""),
    ("loss-doubled", LOSS, DOUBLED, "loss", ""),
)  # fmt: skip
