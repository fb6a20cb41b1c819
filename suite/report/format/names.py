"""The names of frameworks, workloads and settings in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import fill, listing
from suite.catalog.frameworks import FRAMEWORKS as ALL_FRAMEWORKS
from suite.catalog.frameworks import STRATEGIES
from suite.catalog.settings import OF_ROWS, SCRIPT, SETTINGS
from workloads import registry
from workloads.spec import is_loss, read_declaration

FRAMEWORKS = {name: each.title for name, each in ALL_FRAMEWORKS.items()}

WORKLOADS = {name: read_declaration(name).title for name in registry.WORKLOADS}

#: What a setting is called.
SETTING_NAMES = {name: each.title for name, each in SETTINGS.items()}

#: A value of a setting as the subject of a sentence.
SUBJECTS = {"run": "run {}", "machine": "{}", **{name: SETTINGS[name].subject for name in OF_ROWS}}

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def target_words(target: float) -> str:
    """Returns ``.86`` for an accuracy, and ``loss 5.5`` for a loss."""
    return f"loss {target:g}" if is_loss(target) else f"{target:.2f}".lstrip("0")


def strategy(name: str) -> str:
    """Returns what users of the framework call it, such as ``DDP``."""
    return STRATEGIES.get(name, name)


def name_value(setting: str, value: str) -> str:
    """Returns a value of a setting, such as ``batch 64``."""
    if value in ("", "none") and setting in SETTING_NAMES:
        return f"no {SETTING_NAMES[setting]}"
    of_variant = setting.removeprefix("env.").removeprefix("arg.")
    return fill(SUBJECTS.get(setting, f"{of_variant} {{}}"), value)


def framework(name: str) -> str:
    return FRAMEWORKS.get(name, name)


def frameworks(names: Sequence[str], mark: str = "and") -> str:
    """Returns ``PyTorch, TensorFlow and JAX``."""
    return listing([framework(name) for name in names], mark)


def workload_title(name: str) -> str:
    """Returns what a workload's spec calls it; its name where that is not known here."""
    return read_declaration(name).title or name.replace(SCRIPT, "script ", 1)


def workload(group: Group) -> str:
    """Returns ``small CIFAR-100 CNN``, and ``IMDB LSTM (synthetic data)`` where the data is not the real one."""
    name = workload_title(group.workload)
    sized = name if group.size == "full" else f"{group.size} {name}"
    return sized if group.data_kind == "real" or group.is_of_script else f"{sized} ({group.data_words.lower()})"


def count(n: int, word: str, plural: str = "") -> str:
    """Returns ``1 launch`` or ``6 launches``."""
    return f"{n} {word}" if n == 1 else f"{n} {plural or word + ('es' if word == 'launch' else 's')}"


def counts(values: Iterable[int], word: str) -> str:
    """Returns ``6 launches``, or ``2 to 6 launches`` where the numbers differ."""
    known = set(values)
    low, high = min(known), max(known)
    return count(high, word) if low == high else f"{low} to {count(high, word)}"


def number(n: int) -> str:
    """Returns a small number as a word."""
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)
