"""Makes the picture of a notebook's cells in the documents.

    python tools/notebook_screenshot.py [FOLDER]

The demo's recording, as a notebook shows it: as the value of a cell, and in the viewer below.
Needs Chromium and the installed package.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import gpumemprof
from gpumemprof.integrations.notebook.viewer import Viewer

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1100, 1060
STYLE = """
body { font: 13px sans-serif; margin: 16px; background: white; }
pre { background: #f5f5f5; border: 1px solid #ddd; padding: 8px; }
th, td { text-align: left; padding: 1px 10px 1px 0; font-size: 12px; }
"""


def cell(code: str, shown: str) -> str:
    return f"<pre>{escape(code)}</pre><div>{shown}</div>"


def main(folder: Path) -> None:
    path = gpumemprof.demo_path()
    recording = gpumemprof.load(path)
    cells = [
        cell('recording = gpumemprof.load("demo.pickle.gz")\nrecording', recording._repr_html_()),
        cell("%gpumemprof_view demo.pickle.gz --height 560", Viewer(path, 560)._repr_html_()),
    ]
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "notebook.html"
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{"".join(cells)}',
            encoding="utf-8",
        )
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                # A frame in a process of its own would not be waited for.
                "--disable-features=IsolateSandboxedIframes",
                "--virtual-time-budget=20000",
                f"--user-data-dir={name}/browser",
                f"--window-size={WIDTH},{HEIGHT}",
                f"--screenshot={folder / 'notebook.png'}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=240,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
