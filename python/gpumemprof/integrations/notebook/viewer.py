"""The viewer inside a cell: one page that contains the recording and needs no server."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from gpumemprof.errors import InputError

__all__ = ["Viewer"]

# The page keeps its view in its address, and the document of such a frame has none.
_SCRIPT = "for (const name of ['pushState', 'replaceState']) history[name] = () => {};"
_SCRIPTS_ALLOWED = "script-src "


def _without_address(page: str) -> str:
    """The page, allowed to run one more script, which comes first."""
    checksum = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    allowed = f"{_SCRIPTS_ALLOWED}'sha256-{checksum}' "
    policy = page.find(_SCRIPTS_ALLOWED)
    end = page.find(">", policy) + 1
    if policy < 0 or end == 0:
        return page
    script = f"<script>{_SCRIPT}</script>"
    start = policy + len(_SCRIPTS_ALLOWED)
    return page[:policy] + allowed + page[start:end] + script + page[end:]


class Viewer:
    """A recording in the viewer, as the value of a cell.

    ::

        from gpumemprof.integrations.notebook.viewer import Viewer

        Viewer("run.gmp")

    Args:
        path: a recording, or a snapshot of torch's.
        height: in pixels.

    Raises:
        InputError: it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], height: int = 640) -> None:
        """Make the page."""
        self.path = os.fspath(path)
        self.height = height
        with tempfile.TemporaryDirectory(prefix="gpumemprof-") as folder:
            page = Path(folder) / "view.html"
            done = subprocess.run(
                [sys.executable, "-m", "gpumemprof", "report", self.path, "--html", str(page)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0 or not page.exists():
                said = done.stderr.strip().splitlines() or ["the page could not be made"]
                raise InputError(said[-1].partition("gpumemprof: ")[2] or said[-1], "bad_input")
            self.html = _without_address(page.read_text(encoding="utf-8"))
            """The page, complete in itself."""

    def __repr__(self) -> str:
        """The file."""
        return f"<Viewer {self.path!r}>"

    def _repr_html_(self) -> str:
        # A frame keeps the page's styles and scripts from the notebook's, and may not reach out.
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" '
            f'height="{self.height}" style="border: 0"></iframe>'
        )
