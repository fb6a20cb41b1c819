"""What can be deleted from a file: branches, call statements, and terms of expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BRANCH, CALL, TERM = KINDS = ("branch", "call", "term")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
#: What does nothing when it runs, and text, whose wording is free.
PASSED_OVER = {"annotation", "returns", "decorator_list"}


@dataclass(frozen=True)
class Cut:
    """A deletion in the file at ``path``: the text from ``start`` to ``end`` (bytes) becomes ``text``.

    ``cut`` is the first part of what is deleted.
    """

    path: Path
    kind: str
    line: int
    cut: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Returns the source without it."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def is_sound(self, source: str) -> bool:
        """Returns whether it leaves a file that can be parsed and is another program."""
        try:
            return ast.dump(ast.parse(self.apply(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


def find_cuts(path: Path, source: str) -> list[Cut]:
    """Returns all deletions, of which a few are not sound."""
    tree, starts = ast.parse(source), [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    cuts = []
    for kind, node, gone, left in _choices(tree):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        words = ast.unparse(gone).splitlines()[0][:100]
        cuts.append(Cut(path, kind, gone.lineno, words, start, end, _written(left, node.col_offset)))
    return cuts


def _written(left: Any, indent: int) -> str:
    """Statements with this indentation after the first line, or an expression in brackets."""
    if not isinstance(left, list):
        return f"({ast.unparse(left)})"
    lines = "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in left or [ast.Pass()]).split("\n")
    return f"\n{' ' * indent}".join(lines)


def _choices(tree: ast.AST) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yields kind, the node to replace, the part of it that goes, and what is left of it."""
    for node in _nodes(tree):
        match node:
            case ast.If():
                yield from ((BRANCH, node, *each) for each in _without_an_arm(node))
            case ast.Try():
                yield from ((BRANCH, node, *each) for each in _without_a_handler(node))
            case ast.Match(subject, cases) if len(cases) > 1:
                for case, rest in _without_one(cases):
                    yield BRANCH, node, case.body[0], [ast.Match(subject, rest)]
            case ast.IfExp(_, body, other):
                yield BRANCH, node, body, other
                yield BRANCH, node, other, body
            case ast.Expr(ast.Call() as call):
                yield CALL, node, call, []
            case ast.BinOp(left, _, right):
                yield TERM, node, right, left
                yield TERM, node, left, right
            case ast.BoolOp(operator, values):
                for gone, rest in _without_one(values):
                    yield TERM, node, gone, ast.BoolOp(operator, rest) if len(rest) > 1 else rest[0]
            case ast.Compare(left, operators, others) if len(operators) > 1:
                yield TERM, node, others[-1], ast.Compare(left, operators[:-1], others[:-1])
                yield TERM, node, left, ast.Compare(others[0], operators[1:], others[1:])
            case ast.List() | ast.Set() | ast.Tuple() if len(node.elts) > 1 and _is_read(node):
                for gone, rest in _without_one(node.elts):
                    yield TERM, node, gone, _copy(node, elts=rest)
            case ast.Dict(keys, values) if len(keys) > 1:
                for (key, gone), rest in _without_one([*zip(keys, values, strict=True)]):
                    yield TERM, node, key or gone, ast.Dict(*map(list, zip(*rest, strict=True)))
            case ast.Call(keywords=keywords):
                for gone, rest in _without_one(keywords):
                    yield TERM, node, gone.value, _copy(node, keywords=rest)
            case _ if isinstance(node, COMPREHENSIONS):
                yield from ((BRANCH, node, *each) for each in _without_a_filter(node))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs, each ``elif`` as a part of its ``if``."""
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in PASSED_OVER or isinstance(child, ast.JoinedStr):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            is_elif = name == "orelse" and isinstance(tree, ast.If) and isinstance(child, ast.If)
            if not (is_elif and len(value) == 1):
                yield child
            yield from _nodes(child)


def _without_an_arm(node: ast.If) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """Yields each arm of an ``if`` with the statement that is left without it."""
    arms, last = [node], node.orelse
    while len(last) == 1 and isinstance(last[0], ast.If):
        arms, last = [*arms, last[0]], last[0].orelse

    def build(rest: Sequence[ast.If], tail: list[ast.stmt]) -> list[ast.stmt]:
        for arm in reversed(rest):
            tail = [ast.If(arm.test, arm.body, tail)]
        return tail

    for arm, rest in _without_one(arms):
        yield arm.body[0], build(rest, last)
    if last:
        yield last[0], build(arms, [])


def _without_a_handler(node: ast.Try) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    for handler, rest in _without_one(node.handlers):
        is_needed = bool(rest or node.finalbody)
        yield handler.body[0], [_copy(node, handlers=rest)] if is_needed else [*node.body, *node.orelse]


def _without_a_filter(node: Any) -> Iterator[tuple[ast.AST, ast.AST]]:
    for at, part in enumerate(node.generators):
        for gone, rest in _without_one(part.ifs):
            generators = [*node.generators]
            generators[at] = _copy(part, ifs=rest)
            yield gone, _copy(node, generators=generators)


def _without_one(parts: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    for at, part in enumerate(parts):
        yield part, [*parts[:at], *parts[at + 1 :]]


def _is_read(node: Any) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not any(
        isinstance(each, ast.Slice) for each in node.elts
    )


def _copy(node: Any, **changes: Any) -> Any:
    return type(node)(**{**dict(ast.iter_fields(node)), **changes})
