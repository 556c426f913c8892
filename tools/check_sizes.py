"""Checks sizes: files and lines of each part, lines of code in a file, lines in a function.

What is too large has a reason in EXCEPTIONS; an exception that is no longer needed is an error.
Totals may only fall: a commit that makes a part smaller lowers its limit, and one that must raise
it says why.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from source_functions import BRACES, PYTHON, code_lines, functions

FOLDERS = ("include", "src", "python", "viewer/src", "tests", "tools", "bench", "fuzz")
DATA = ("tests/data", "tests/golden", "fuzz/corpus", "fuzz/seeds", "python/gpumemprof/data")
SOURCES = PYTHON | BRACES | {".css"}

MOST_LINES = 600
MOST_FUNCTION_LINES = 80

# Of the sources of each part: files, and lines with comments and empty ones.
TOTALS: dict[str, tuple[int, int]] = {
    "src": (989, 98_900),
    "python/gpumemprof": (428, 52_800),
    "viewer/src": (92, 12_400),
    "tests": (691, 76_900),
}
# A limit may be so much above what is there, so that not every commit must change it.
SLACK = 0.005

# A file or "file: function" → why it may be larger.
EXCEPTIONS: dict[str, str] = {
    "tests/device/estimate_cases/row_ops.py: row_ops": "a table: one line for each operation",
    "src/ingest/pickle/machine.cpp: Machine::execute": (
        "the loop that reads snapshots keeps its position and the top of the stack in registers"
    ),
}


class Size(NamedTuple):
    what: str  # a key of EXCEPTIONS
    where: str
    size: int
    limit: int
    unit: str


def source_files(root: Path) -> list[Path]:
    """Tracked sources and new ones that git does not ignore, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *FOLDERS]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found = (Path(name) for name in sorted(set(names.split("\0"))) if name)
    return [
        path
        for path in found
        if path.suffix in SOURCES
        and not any(str(path).startswith(f"{folder}/") for folder in DATA)
        and (root / path).is_file()
    ]


def too_large(root: Path) -> Iterator[Size]:
    files = source_files(root)
    for path in files:
        text = (root / path).read_text(encoding="utf-8")
        if (lines := code_lines(text, path.suffix)) > MOST_LINES:
            yield Size(str(path), str(path), lines, MOST_LINES, "lines of code")
        for function in [] if path.suffix == ".css" else functions(text, path.suffix):
            if function.lines > MOST_FUNCTION_LINES:
                yield Size(
                    f"{path}: {function.name}",
                    f"{path}:{function.first_line}: {function.name}",
                    function.lines,
                    MOST_FUNCTION_LINES,
                    "lines in a function",
                )


def check_totals(root: Path, totals: dict[str, tuple[int, int]]) -> Iterator[str]:
    files = source_files(root)
    for part, limits in totals.items():
        own = [root / path for path in files if path.is_relative_to(part)]
        sizes = (len(own), sum(path.read_bytes().count(b"\n") for path in own))
        for size, limit, unit in zip(sizes, limits, ("source files", "lines")):
            if size > limit:
                yield f"{part}: {size} {unit}; the limit is {limit}, and may only fall"
            elif size < limit * (1 - SLACK) - 1:
                yield f"{part}: {size} {unit}; lower the limit of {limit} in {Path(__file__).name}"


def check_sizes(root: Path, exceptions: dict[str, str]) -> Iterator[str]:
    found = list(too_large(root))
    for size in found:
        if size.what not in exceptions:
            yield f"{size.where}: {size.size} {size.unit}; the limit is {size.limit}"
    for what in exceptions.keys() - {size.what for size in found}:
        yield f"{what} keeps the limits now; drop it from EXCEPTIONS"


def main(root: Path) -> int:
    problems = [*check_sizes(root, EXCEPTIONS), *check_totals(root, TOTALS)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
