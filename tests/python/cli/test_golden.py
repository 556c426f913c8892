"""What the commands print, word for word: see tests/golden/README.md."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from gpumemprof.integrations.notebook import magics

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden"
CASES = sorted(path.parent for path in GOLDEN.rglob("command"))


def run_case(case: Path, folder: Path) -> tuple[str, str, int]:
    """Every line of the command file; their combined output, and the exit code of the last."""
    (folder / "data").symlink_to(ROOT / "tests/data")
    out = err = ""
    code = 0
    lines = (case / "command").read_text().splitlines()
    for number, line in enumerate(lines):
        words = shlex.split(line)
        assert words[0] == "gpumemprof"
        done = subprocess.run(
            [sys.executable, "-m", "gpumemprof", *words[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"},
        )
        out, err, code = out + done.stdout, err + done.stderr, done.returncode
        assert code == 0 or number == len(lines) - 1, done.stderr
    return out, err, code


def expected(case: Path, name: str) -> str:
    path = case / name
    return path.read_text() if path.exists() else ""


def update(case: Path, name: str, text: str) -> None:
    if text:
        (case / name).write_text(text)
    else:
        (case / name).unlink(missing_ok=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.relative_to(GOLDEN)))
def test_prints_what_it_printed(case: Path, tmp_path: Path) -> None:
    out, err, code = run_case(case, tmp_path)
    if os.environ.get("GPUMEMPROF_UPDATE_GOLDEN"):
        update(case, "expected", out)
        update(case, "stderr", err)
        update(case, "status", f"{code}\n" if code else "")
    assert code == int(expected(case, "status") or "0"), err
    assert err == expected(case, "stderr")
    assert out == expected(case, "expected")


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.relative_to(GOLDEN)))
def test_fits_a_terminal_of_80_columns(case: Path) -> None:
    text = expected(case, "expected")
    if text.startswith("{"):
        pytest.skip("JSON is not for terminals")
    # A command to copy is not wrapped, however long it is.
    commands = ("gpumemprof ", "export ")
    too_long = [
        line
        for line in text.splitlines()
        if len(line) > 80 and not any(command in line for command in commands)
    ]
    assert too_long == []


def test_the_help_of_every_verb_is_here_and_in_one_style() -> None:
    listed = expected(GOLDEN / "usage/no_command", "expected").partition("Commands:\n")[2]
    verbs = re.findall(r"^  (\w+)", listed.partition("\n\n")[0], re.MULTILINE)
    assert {"run", "tree", "demo"} <= set(verbs)
    for verb in verbs:
        text = expected(GOLDEN / f"usage/help_{verb}", "expected")
        assert f"\n\nUsage: gpumemprof {verb} " in text, verb
        options = text.partition("\nOptions:\n")[2].partition("\n\n")[0].splitlines()
        last = next(line for line in reversed(options) if line.startswith("  -"))
        assert re.fullmatch(r"  -h, --help +Print this help", last), verb
        assert "Start with" not in text


def test_the_help_of_the_magics_fits_80_columns() -> None:
    for text in (magics._HELP, magics._VIEW_HELP):
        assert max(map(len, text.splitlines())) <= 80


def test_every_verb_has_its_errors_and_every_kind_of_file_its_report() -> None:
    """The messages that no case covers are the ones that go wrong."""
    commands = [(case, (case / "command").read_text()) for case in CASES]
    for verb in (
        *("report", "simulate", "advise", "convert", "info", "demo", "view", "run"),
        *("estimate", "calibrate", "ranks", "export"),
    ):
        mistakes = [c for c, text in commands if f" {verb}" in text and (c / "stderr").exists()]
        assert mistakes, f"no case of {verb} prints to standard error"
    for part in (".gmp", ".pickle", "--modules", "--steps", "--at end", "--json"):
        assert any(part in text for _, text in commands), f"no case has {part}"
