"""Where in the program a value is asked for: in a loop that waits for it, or in a check.

A loop that goes on until a computed number is small must end without that number, and a check that
ends the work early (`if kl > limit: break`, `if loss > 1e4: raise`) is expected not to.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Place", "place_of"]

_ENDS_THE_PROGRAM = ("exit", "_exit", "quit")


@dataclass(frozen=True)
class Place:
    """What surrounds a line."""

    is_in_while: bool = False
    """Whether the innermost loop of its function is a `while`."""
    is_loop_test: bool = False
    """Whether it decides if a `while` loop goes on."""
    is_check: bool = False
    """Whether it decides if something is left out or ended: `if …: break`."""
    compared_with: str = ""
    """What the value is compared with there for equality: a name or a number."""

    @property
    def may_end_loop(self) -> bool:
        return self.is_loop_test or (self.is_check and self.is_in_while)


@dataclass
class _Facts:
    in_while: set[int] = field(default_factory=set)
    tests: set[int] = field(default_factory=set)
    checks: set[int] = field(default_factory=set)
    compared: dict[int, str] = field(default_factory=dict)


def place_of(file: str, number: int) -> Place:
    facts = _facts(file)
    return Place(
        is_in_while=number in facts.in_while,
        is_loop_test=number in facts.tests,
        is_check=number in facts.checks,
        compared_with=facts.compared.get(number, ""),
    )


@functools.lru_cache(maxsize=256)
def _facts(file: str) -> _Facts:
    facts = _Facts()
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return facts
    _visit(tree, facts)
    return facts


def _visit(node: ast.AST, facts: _Facts) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.While, ast.If)):
            _note_equality(child.test, facts)
        if isinstance(child, ast.While):
            facts.tests.update(_lines(child.test))
            facts.in_while.update(_lines(child))
        elif isinstance(child, (ast.For, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef)):
            # Whatever is around it: its own lines are not repeated until a value is small.
            facts.in_while.difference_update(_lines(child))
        elif isinstance(child, ast.If) and _ends(child.body):
            facts.checks.update(_lines(child.test))
        _visit(child, facts)


def _note_equality(test: ast.expr, facts: _Facts) -> None:
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            other = node.comparators[0]
            if isinstance(other, (ast.Name, ast.Constant, ast.Attribute)):
                facts.compared[node.lineno] = ast.unparse(other)


def _lines(node: ast.AST) -> Iterator[int]:
    first = getattr(node, "lineno", 0)
    yield from range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _ends(body: Sequence[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, (ast.Break, ast.Continue, ast.Return, ast.Raise)):
        return True
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    called = last.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _ENDS_THE_PROGRAM
