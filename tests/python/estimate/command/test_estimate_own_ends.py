"""A program that ends itself: the line is known, however it does so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import runpy
from gpumemprof.estimate.process.own_ends import watch_own_ends
watch_own_ends(
    lambda line: print("exit", line, flush=True),
    lambda line: print("at once", line, flush=True),
)
runpy.run_path("train.py", run_name="__main__")
"""


def run(folder: Path, *lines: str) -> tuple[list[str], int]:
    (folder / "train.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-c", START]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout.splitlines(), found.returncode


def test_an_exit_with_an_error_names_its_line(tmp_path: Path) -> None:
    assert run(tmp_path, "import sys", "", "sys.exit(4)") == (["exit train.py:3"], 4)
    assert run(tmp_path, "import sys", "sys.exit()") == ([], 0)


def test_an_exit_at_once_names_its_line(tmp_path: Path) -> None:
    lines = ("import os", "def leave():", "    os._exit(7)", "leave()")
    assert run(tmp_path, *lines) == (["at once train.py:3"], 7)
    assert run(tmp_path, "import os", "os._exit(0)") == ([], 0)


def test_processes_that_it_forks_are_not_the_program(tmp_path: Path) -> None:
    found, code = run(
        tmp_path,
        "import os",
        "if os.fork() == 0:",
        "    os._exit(5)",
        "print(os.waitstatus_to_exitcode(os.wait()[1]))",
    )
    assert (found, code) == (["5"], 0)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_signal_to_itself_names_its_line(tmp_path: Path, name: str) -> None:
    lines = ("import os, signal", f"os.kill(os.getpid(), signal.{name})")
    number = getattr(signal, name)
    assert run(tmp_path, *lines) == (["at once train.py:2"], -number)


def test_a_signal_that_is_handled_does_not_end_it(tmp_path: Path) -> None:
    found, code = run(
        tmp_path,
        "import os, signal",
        "signal.signal(signal.SIGTERM, lambda *_: print('saved', flush=True))",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), 0)",
    )
    assert (found, code) == (["saved"], 0)


def test_a_line_is_named_after_its_folder_is_gone(tmp_path: Path) -> None:
    found, code = run(
        tmp_path,
        "import os, sys",
        "os.mkdir('scratch')",
        "os.chdir('scratch')",
        "os.rmdir('../scratch')",
        "sys.exit(3)",
    )
    assert (found, code) == (["exit train.py:5"], 3)
