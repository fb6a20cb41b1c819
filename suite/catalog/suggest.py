"""What an error says about a name that does not exist: the nearest name, and all names."""

from __future__ import annotations

from collections.abc import Iterable

#: A part of a name, such as `lstm`, counts as near from this many letters on.
PART_LEAST = 3

#: What others call it.
ALSO_CALLED = {
    "gpu": "cuda", "tf": "tensorflow", "single": "fp32", "float32": "fp32", "tensorfloat32": "tf32", "half": "fp16",
    "float16": "fp16", "bfloat16": "bf16", "double": "fp64", "float64": "fp64",
}  # fmt: skip


def unknown(what: str, value: object, choices: Iterable[str], also: str = "") -> str:
    """The text of an error: ``unknown framework 'pytroch'; did you mean 'pytorch'? There are: ...``.

    ``also`` is what else is allowed besides the choices.
    """
    names = list(choices)
    near = nearest(str(value), names)
    listed = ", ".join([*names, *([also] if also else [])])
    return f"unknown {what} {value!r}; " + (
        f"did you mean {near!r}? There are: {listed}" if near else f"there are: {listed}"
    )


def nearest(value: str, choices: Iterable[str]) -> str:
    """The choice that was probably meant; empty if none is near."""
    from difflib import get_close_matches  # here, since most starts of the suite need no error

    spelled = {_plain(choice): choice for choice in reversed(list(choices))}
    word = _plain(value)
    if (meant := ALSO_CALLED.get(word)) in spelled:
        return meant
    parts = [choice for plain, choice in spelled.items() if len(word) >= PART_LEAST and word in plain]
    close = get_close_matches(word, spelled, n=1)
    return spelled[close[0]] if close else parts[-1] if parts else ""


def _plain(text: str) -> str:
    """The text without case, hyphens and underscores."""
    return text.lower().replace("-", "").replace("_", "")
