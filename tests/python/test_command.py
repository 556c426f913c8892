"""The command as users start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import gpumemprof
from gpumemprof.__main__ import main

NO_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "numpy", "pyarrow", "polars", "duckdb"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import gpumemprof.__main__
sys.exit(gpumemprof.__main__.main(["demo"]))
"""


def test_demo_needs_nothing_but_the_package():
    ended = subprocess.run(
        [sys.executable, "-c", NO_TORCH], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr == ""
    assert ended.returncode == 0
    assert "ran out of memory" in ended.stdout
    assert "gpumemprof run train.py" in ended.stdout.splitlines()[-1]


def test_demo_reports_the_recording_of_the_package(command):
    printed = json.loads(command("demo", "--json").stdout)
    assert printed == gpumemprof.load(gpumemprof.demo_path()).report()


def test_says_its_version(command):
    assert command("--version").stdout.strip() == gpumemprof.__version__


def test_explains_a_wrong_call_and_exits_with_2(command):
    for arguments in [["report"], ["reprot"], ["report", "x", "--at", "noon"], []]:
        ended = command(*arguments)
        assert ended.returncode == 2, arguments
        assert "Traceback" not in ended.stderr


def test_is_a_function_that_leaves_signals_alone(capfd):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)]
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.strip() == gpumemprof.__version__
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)] == before


def test_a_closed_pipe_ends_it_quietly(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    words = [sys.executable, "-m", "gpumemprof", "demo"]
    with os.fdopen(write_end, "wb") as out:
        ended = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, timeout=60, check=False)
    assert ended.returncode == -signal.SIGPIPE
    assert ended.stderr == b""


def test_ctrl_c_ends_it_at_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    words = [sys.executable, "-m", "gpumemprof", "report", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with path.open("wb"):  # opens once the command reads, and never says a word
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT
        assert complaint == b""
