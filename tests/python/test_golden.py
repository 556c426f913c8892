"""What the commands print, word for word: see tests/golden/README.md."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = sorted(path.parent for path in (ROOT / "tests/golden").rglob("command"))


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: str(case.relative_to(ROOT / "tests/golden"))
)
def test_prints_what_it_printed(case: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "tests/data")
    words = shlex.split((case / "command").read_text())
    assert words[0] == "gpumemprof"
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )
    status = case / "status"
    expected_status = int(status.read_text()) if status.exists() else 0
    assert done.returncode == expected_status, done.stderr
    if os.environ.get("GPUMEMPROF_UPDATE_GOLDEN"):
        (case / "expected").write_text(done.stdout)
    assert done.stdout == (case / "expected").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fits_a_terminal_of_80_columns(case: Path) -> None:
    text = (case / "expected").read_text()
    if text.startswith("{"):
        pytest.skip("JSON is not for terminals")
    # A command to copy is not broken, however long its path is.
    too_long = [line for line in text.splitlines() if len(line) > 80 and "gpumemprof " not in line]
    assert too_long == []
