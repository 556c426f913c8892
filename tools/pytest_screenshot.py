"""Makes the picture of a pytest session in the documents, from the tests that the page shows.

    python tools/pytest_screenshot.py [FOLDER]

Needs torch, pytest, rich and the installed package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
WORDS = ["-q", "--gpumemprof", "--gpumemprof-top", "3", "--color=yes", "-p", "no:cacheprovider"]


def session() -> str:
    """What pytest prints about the tests of the page."""
    page = (ROOT / "docs" / "integrations" / "pytest.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- file test_model.py -->\n```python\n(.*?)```", page, re.DOTALL)
    if found is None:
        raise SystemExit("the page has no test_model.py any more")
    environment = {**os.environ, "COLUMNS": str(WIDTH), "CUDA_VISIBLE_DEVICES": ""}
    for name in ("CI", "NO_COLOR", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_model.py").write_text(found[1])
        command = [sys.executable, "-m", "pytest", *WORDS]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    return done.stdout


def main(folder: Path) -> None:
    with Path(os.devnull).open("w") as nothing:
        console = Console(record=True, width=WIDTH, file=nothing, force_terminal=True)
        console.print(Text("$ pytest " + " ".join(WORDS[:4])))
        console.print(Text.from_ansi(session()))
        console.save_svg(str(folder / "pytest.svg"), title="pytest")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
