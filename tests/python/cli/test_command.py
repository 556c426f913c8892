"""The command as users start it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest
from gpumemprof.__main__ import main

TRACES = Path(__file__).parents[2] / "data/traces"
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


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_says_its_version(command, flag):
    assert command(flag).stdout.strip() == gpumemprof.__version__


# The whole sentence, without the program name in front of it.
WRONG_CALLS = {
    "reprot": "unknown command 'reprot', did you mean 'report'?",
    "repot x": "unknown command 'repot', did you mean 'report'?",
    "conv": "unknown command 'conv', did you mean 'convert'?",
    "leaks": "leaks needs FILE; see gpumemprof leaks --help",
    "x": "unknown command 'x'; the commands are "
    "run, live, estimate, calibrate, report, tree, stats, table, compare, ranks, leaks, view, "
    "advise, simulate, convert, export, info, demo, completion",
    "--jsno": "unknown flag '--jsno'; the commands are "
    "run, live, estimate, calibrate, report, tree, stats, table, compare, ranks, leaks, view, "
    "advise, simulate, convert, export, info, demo, completion",
    "run.pickle": "'run.pickle' is a file, not a command; type gpumemprof report run.pickle",
    "run.gmp --json": "'run.gmp' is a file, not a command; type gpumemprof report run.gmp",
    "train.py": "'train.py' is a file, not a command; type gpumemprof run train.py",
    "report": "report needs FILE; see gpumemprof report --help",
    "view": "view needs FILE; see gpumemprof view --help",
    "convert x --to gmp": "convert needs OUT; see gpumemprof convert --help",
    "convert x y": "'y' does not end like one of the formats; add --to torch-snapshot, gmp, "
    "folded, pprof, speedscope, perfetto, csv, parquet or arrow",
    "convert x y.json": "'y.json' does not end like one of the formats; add --to torch-snapshot, "
    "gmp, folded, pprof, speedscope, perfetto, csv, parquet or arrow",
    "convert": "convert needs FILE and OUT; see gpumemprof convert --help",
    "report x --frob": "unknown flag '--frob'; see gpumemprof report --help",
    "report --frob": "unknown flag '--frob'; see gpumemprof report --help",
    "report x --jsn": "unknown flag '--jsn', did you mean '--json'?",
    "report x --module=3": "unknown flag '--module', did you mean '--modules'?",
    "report x -q": "unknown flag '-q'; see gpumemprof report --help",
    "report x --json=maybe": "--json takes no value; see gpumemprof report --help",
    "report x --json=3": "--json takes no value; see gpumemprof report --help",
    "report x --json=true": "--json takes no value; see gpumemprof report --help",
    "report x --modules=": "--modules takes no value; see gpumemprof report --help",
    "demo --steps=0": "--steps takes no value; see gpumemprof demo --help",
    "simulate x --search=1": "--search takes no value; see gpumemprof simulate --help",
    "simulate x y": "unexpected argument 'y'; see gpumemprof simulate --help",
    "view x --port": "--port needs a value: --port PORT; see gpumemprof view --help",
    "view x --port=": "--port needs a value: --port PORT; see gpumemprof view --help",
    "view x --port 1 --port 2": "--port can be given only once; see gpumemprof view --help",
    "report x --at noon": "--at takes an event number, step:N, peak or end, not 'noon'; "
    "try --at end",
    "report x --at noon --html y": "--at takes an event number, step:N, peak or end, not 'noon'; "
    "try --at end",
    "simulate x --memory-limit 5": "--memory-limit takes a size with its unit, not '5'; "
    "try --memory-limit 5GiB, or 5B for bytes",
    "compare x y --fail-above 5": "--fail-above takes a share or a size with its unit, not '5'; "
    "try --fail-above 5% or --fail-above 200MiB",
    "report x --device one": "--device takes a number or a name such as cuda:0, not 'one'; "
    "try --device 0",
}
NUMBERS = {
    "view x --port": (
        "--port takes a whole number from 0 to 65535, not '{}'; "
        "leave --port out to take a free one",
        ["99999", "65536", "-1", "text", "80.5", "1e3", "0x50", " 80", "9" * 30],
    ),
    "report x --top": (
        "--top takes a whole number of at least 0, not '{}'; try --top 10",
        ["-1", "text", "1.5", "9" * 30],
    ),
    "demo --top": (
        "--top takes a whole number of at least 0, not '{}'; try --top 10",
        ["-3"],
    ),
    "advise x --batch": (
        "--batch takes a whole number of at least 1, not '{}'; try --batch 32",
        ["0", "-1", "text", "9" * 30],
    ),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_a_wrong_call_is_one_sentence_with_the_next_step(capfd, call):
    assert main(call.split()) == 2
    printed = capfd.readouterr()
    assert printed.err == f"gpumemprof: {WRONG_CALLS[call]}\n"
    assert printed.out == ""


@pytest.mark.parametrize("verb", ["report", "leaks"])
@pytest.mark.parametrize("device", ["cpu", "host"])
def test_a_device_of_another_kind_is_not_the_one_of_its_number(capfd, verb, device):
    path = str(TRACES / "everything.gmp")
    assert main([verb, path, "--device", device]) == 2
    sentence = f"{path}: there is no device {device} in it; it holds cuda:0, cuda:1"
    assert capfd.readouterr() == ("", f"gpumemprof: {sentence}\n")


@pytest.mark.parametrize("call", NUMBERS)
def test_what_is_no_number_is_told_with_those_that_are(capfd, call):
    sentence, values = NUMBERS[call]
    words = call.split()
    for value in values:
        assert main([*words[:-1], f"{words[-1]}={value}"]) == 2, value
        assert capfd.readouterr().err == f"gpumemprof: {sentence.format(value)}\n"
        assert main([*words, value]) == 2, value
        assert capfd.readouterr().err == f"gpumemprof: {sentence.format(value)}\n"


def test_a_call_of_nothing_shows_the_help_and_exits_with_2(command):
    ended = command()
    assert ended.returncode == 2
    assert "gpumemprof demo" in ended.stdout


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


def test_ctrl_c_ends_it_at_once():
    read_end, write_end = os.pipe()
    words = [sys.executable, "-m", "gpumemprof", "report", f"/dev/fd/{read_end}"]
    with (
        os.fdopen(write_end, "wb") as out,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[read_end]
        ) as process,
    ):
        os.close(read_end)
        out.write(b"\x80\x04" + b"N0" * (1 << 20))  # more than a pipe holds: the command reads it
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT
        assert complaint == b""


@pytest.mark.parametrize(
    "words",
    [
        *(["report"], ["info"], ["tree"], ["stats"], ["table"], ["leaks"], ["advise"]),
        *(["view"], ["simulate"], ["convert", "--to", "gmp", "out.gmp"], ["ranks"]),
        *(["live", "--once"], ["compare", "NAME"], ["report", "--html", "out.html"]),
    ],
    ids=" ".join,
)
def test_a_pipe_with_a_name_is_refused_and_not_waited_for(tmp_path, words):
    os.mkfifo(tmp_path / "pipe.gmp")
    verb, *flags = words
    named = [verb, "pipe.gmp", *["pipe.gmp" if flag == "NAME" else flag for flag in flags]]
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *named],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert done.returncode == 3
    assert re.search(r"pipe\.gmp: (this is a pipe, )?not a file; (write|name) ", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.gmp"]


@pytest.mark.parametrize("words", [["info"], ["report"], ["live", "--once"]], ids=" ".join)
def test_pipes_among_chapters_are_not_waited_for(tmp_path, words):
    shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / "chapter-000001.gmp")
    os.mkfifo(tmp_path / "chapter-000002.gmp")
    os.mkfifo(tmp_path / "summary")
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_of_suppressions_is_not_waited_for(tmp_path, capfd):
    os.mkfifo(tmp_path / "pipe")
    words = ["leaks", str(TRACES / "cpu_training.gmp"), "--suppressions", str(tmp_path / "pipe")]
    assert main(words) == 2
    assert "pipe: the file of suppressions cannot be read" in capfd.readouterr().err
