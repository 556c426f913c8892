"""Runs the examples of a page: files that it shows are written, commands that it shows are run.

A block below ``<!-- file NAME -->`` becomes that file. The ``$`` commands of ```console blocks run
in the same folder, in order; what they print must be what the page says, where a line of ``…``
alone stands for any lines, and times stand for any time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from check_docs import matches, parse_blocks, parse_commands, strip_blank  # noqa: E402

_FILE = re.compile(r"^<!-- file (\S+) -->$")
_TIME = re.compile(r"\b\d+(\.\d+)?s\b")
_RULE = re.compile(r"={3,}")


def _files(text: str) -> dict[int, str]:
    """The number of the line with the fence → the name of the file."""
    found = {}
    name = None
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FILE.match(line)
        if match:
            name = match[1]
        elif name is not None and line.startswith("```"):
            found[number] = name
            name = None
    return found


def _plain(lines: list[str]) -> list[str]:
    return [_RULE.sub("===", _TIME.sub("TIME", line)).rstrip() for line in strip_blank(lines)]


def run_page(page: Path, folder: Path, **variables: str) -> int:
    """How many commands with output were run; fails where one prints something else."""
    text = page.read_text(encoding="utf-8")
    names = _files(text)
    bin_folder = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "CUDA_VISIBLE_DEVICES": "",
        **variables,
    }
    for name in ("GPUMEMPROF", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    checked = 0
    for block in parse_blocks(text):
        if block.line in names:
            (folder / names[block.line]).write_text("\n".join(block.lines) + "\n")
        elif block.language == "console":
            for command in parse_commands(block):
                done = subprocess.run(
                    ["bash", "-c", command.text],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=240,
                    check=False,
                )
                actual = _plain(done.stdout.splitlines())
                expected = _plain(command.output)
                assert matches(expected, actual), "\n".join([command.text, *actual])
                checked += 1
    return checked
