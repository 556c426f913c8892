"""The corpus of leaking programs: the holder that is found is the one its author wrote down."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parents[2] / "leaks"
PROGRAMS = sorted((CORPUS / "leaking").glob("*/*.py"))


def _expected(program: Path) -> dict[str, Any]:
    match = re.search(r"^EXPECTED = (.*)$", program.read_text(), re.MULTILINE)
    assert match is not None
    found: dict[str, Any] = ast.literal_eval(match[1])
    return found


def _leaking_lines(program: Path) -> set[int]:
    lines = program.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# leaks")}


def _first_text(program: Path, rows: list[dict[str, Any]]) -> str:
    """Of the line that leaks; of any line if it is not among those that were found."""
    lines = _leaking_lines(program)
    own = [
        row
        for row in rows
        if (row["site"]["file"] or "").endswith(program.name) and row["site"]["line"] in lines
    ]
    return str((own or rows)[0]["text"]) if rows else ""


def test_at_least_nine_of_ten_holders_are_right() -> None:
    programs = [program for program in PROGRAMS if "holder" in _expected(program)]
    programs = [program for program in programs if not _expected(program).get("slow")]
    assert len(programs) > 50
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CORPUS / "find_holders.py"), *map(str, programs)],
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wrong = {}
    for program in programs:
        name = f"{program.parent.name}.{program.stem}"
        holder = _expected(program)["holder"]
        text = _first_text(program, found[name])
        if not re.search(rf"(?<!\w){re.escape(holder)}(?!\w)", text):
            wrong[name] = (holder, text)
    assert len(wrong) <= len(programs) // 10, wrong
