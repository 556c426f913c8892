"""Lists the sentences and labels that users read, with file and line, for a review of the wording.

Looks at string literals of two words or more in the C++ and Python sources and in the viewer's
scripts. Literals that follow one another are joined, as a reader sees them. Comments, docstrings,
includes and checks of our own are left out.

    python tools/list_strings.py [PATH...]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOTS = ("src", "python/bindings", "python/gpumemprof", "viewer/src")
IGNORED_CALLS = re.compile(r"\b(?:GMP_CHECK|static_assert)\s*\(")

CPP_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<include>^[ \t]*\#[^\n]*)
    | (?P<raw>R"(?P<delimiter>[^\s()\\]{0,16})\((?P<rawtext>.*?)\)(?P=delimiter)")
    | (?P<string>"(?P<text>(?:[^"\\\n]|\\.)*)")
    | (?P<char>'(?:[^'\\\n]|\\.)+')
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
TS_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?P<text>(?:[^"\\\n]|\\.)*)")
    | (?P<template>`(?P<templatetext>(?:[^`\\]|\\.)*)`)
    """,
    re.VERBOSE | re.DOTALL,
)


class Found(NamedTuple):
    line: int
    text: str


def is_for_users(text: str) -> bool:
    """Two words at least: names of fields, formats and files are single words."""
    plain = re.sub(r"\{[^}]*\}|\\.|<[^>]*>", " ", text)
    return re.search(r"[A-Za-z]{2,}[,.:;]?\s+[A-Za-z(]", plain) is not None


def of_cpp(source: str) -> Iterator[Found]:
    pending: list[str] = []
    start = end = 0
    for match in CPP_TOKEN.finditer(source):
        if match["text"] is None and match["rawtext"] is None:
            continue
        text = match["text"] if match["text"] is not None else match["rawtext"]
        if pending and source[end : match.start()].strip() == "":
            pending.append(text)
        else:
            if pending:
                yield Found(source.count("\n", 0, start) + 1, "".join(pending))
            pending, start = [text], match.start()
        end = match.end()
        line_start = source.rfind("\n", 0, match.start()) + 1
        if IGNORED_CALLS.search(source, line_start, match.start()):
            pending = []
    if pending:
        yield Found(source.count("\n", 0, start) + 1, "".join(pending))


def of_typescript(source: str) -> Iterator[Found]:
    for match in TS_TOKEN.finditer(source):
        text = match["text"] if match["text"] is not None else match["templatetext"]
        if text is not None:
            yield Found(source.count("\n", 0, match.start()) + 1, re.sub(r"\$(\{)", r"\1", text))


def of_python(source: str) -> Iterator[Found]:
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in docstrings or id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node))
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
            yield Found(node.lineno, text)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Found(node.lineno, node.value)


LANGUAGES = {".cpp": of_cpp, ".h": of_cpp, ".py": of_python, ".ts": of_typescript}


def list_file(path: Path) -> list[Found]:
    found = LANGUAGES[path.suffix](path.read_text(encoding="utf-8"))
    return sorted((one for one in found if is_for_users(one.text)), key=lambda one: one.line)


def main(root: Path, names: list[str]) -> int:
    for name in names or list(ROOTS):
        top = root / name
        paths = [top] if top.is_file() else sorted(top.rglob("*"))
        for path in paths:
            if path.suffix not in LANGUAGES:
                continue
            for found in list_file(path):
                text = found.text.replace("\n", "\\n")
                print(f"{path.relative_to(root)}:{found.line}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, sys.argv[1:]))
