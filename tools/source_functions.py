"""Finds functions and lines of code in Python, C++, TypeScript and JavaScript sources.

Python is parsed. The other three are read by their braces, after strings and comments have been
blanked: a brace opens a function when what stands before it ends like the head of one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

PYTHON = {".py", ".pyi"}
BRACES = {".h", ".cpp", ".ts", ".mjs"}


class Function(NamedTuple):
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


def functions(text: str, suffix: str) -> list[Function]:
    """Every function, also those inside others, by its first line."""
    found = _python_functions(text) if suffix in PYTHON else _braced_functions(blanked(text))
    return sorted(found, key=lambda function: function.first_line)


def code_lines(text: str, suffix: str) -> int:
    """Lines that hold more than blanks, comments and docstrings."""
    if suffix not in PYTHON:
        return sum(1 for line in blanked(text).split("\n") if line.strip())
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#") and number not in docstrings
    )


def _python_functions(text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(node.name, node.lineno, node.end_lineno or node.lineno)


_NOT_CODE = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/                               # comments
    | R"(?P<delimiter>[^()\s]*)\(.*?\)(?P=delimiter)"   # C++'s raw strings
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'              # after a digit, ' separates digits
    | `(?:\\.|[^`\\])*`                                # a template, with what it inserts
    | (?<=[(,=:])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\\\n\[])+/[a-z]*  # a regular expression
    """,
    re.VERBOSE | re.DOTALL,
)


def blanked(text: str) -> str:
    """The text with comments blanked, and strings replaced by quotes of the same length."""

    def blank(match: re.Match[str]) -> str:
        filler = " " if match[0].startswith(("//", "/*")) else '"'
        return re.sub(r"[^\n]", filler, match[0])

    return _NOT_CODE.sub(blank, text)


# How the head of a function ends: its parameters, then qualifiers or a return type, then perhaps
# the initialisers of a constructor's members; the captures of a lambda; an arrow.
_HEAD_END = re.compile(
    r"""(?: \) (?: \s* (?:const|noexcept|override|final|mutable|&&?) )*
               (?: \s* (?:->|:) \s* [\w:<>,&*|\[\]\s."(){};=?]+ )?
         | => | \[[&=\w\s,*]*\] )\s*$""",
    re.VERBOSE,
)
_OBJECT_TYPE = re.compile(
    r"\)\s*:(?:[\w\s|<]*[|<])?\s*$"
)  # TypeScript's, as what a function returns
_CONTROL = re.compile(r"\s*(?:\}\s*)?(?:else\s+)?(?:if|for|while|switch|catch|case|return)\b")
_NAME = re.compile(r"([~\w.:]+)\s*(?:<[^()]*>)?\s*(?:=\s*(?:async\s*)?)?\(")


class _Open(NamedTuple):
    function: str | None  # its name
    is_type: bool
    first: int
    parentheses: int  # open ones around the brace


def _braced_functions(text: str) -> Iterator[Function]:
    opened: list[_Open] = []
    head = parentheses = 0  # where the statement begins, and how many are open in it
    for match in re.finditer(r"[;{}()]", text):
        mark, at = match[0], match.start()
        if mark in "()":
            parentheses += 1 if mark == "(" else -1
        elif mark == ";" and parentheses == 0:
            head = at + 1
        elif mark == "{":
            statement = text[head:at]
            start = head + len(statement) - len(statement.lstrip())
            is_type = bool(_OBJECT_TYPE.search(statement)) and not _CONTROL.match(statement)
            name = None if is_type else _function_name(statement)
            opened.append(_Open(name, is_type, start, parentheses))
            head, parentheses = at + 1, 0
        elif mark == "}" and opened:
            closed = opened.pop()
            if closed.function is not None:
                first, last = text.count("\n", 0, closed.first) + 1, text.count("\n", 0, at) + 1
                yield Function(closed.function, first, last)
            head = closed.first if closed.is_type else at + 1
            parentheses = closed.parentheses


def _function_name(statement: str) -> str | None:
    if not _HEAD_END.search(statement) or _CONTROL.match(statement):
        return None
    named = _NAME.search(statement)
    if named and named[1] == "describe":
        return None  # a group of tests
    return named[1] if named else "(unnamed)"
