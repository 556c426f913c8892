"""Where ``gpumemprof run`` writes its recording, what it prints about it, and what it drops."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_program, run_recorded

ALLOCATE = "import torch\nkept = torch.empty(1000, dtype=torch.uint8)\nprint('ran')\n"


def write(folder: Path, program: str, name: str = "train.py") -> None:
    (folder / name).write_text(textwrap.dedent(program))


@pytest.mark.parametrize(
    "output", ["missing/run.gmp", "train.py/run.gmp", "folder", "/proc/run.gmp"]
)
def test_an_output_that_cannot_be_written_is_refused_before_the_start(
    tmp_path: Path, output: str
) -> None:
    write(tmp_path, ALLOCATE)
    (tmp_path / "folder").mkdir()
    for force in ([], ["-f"]):
        done = run_recorded(tmp_path, *force, "-o", output, "train.py")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("gpumemprof: ")
        assert output in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("run ../train.py", 4, "the current folder was deleted; change to another one"),
        ("estimate ../train.py", 4, "the current folder was deleted; change to another one"),
        ("ranks .", 3, ".: no recordings and no summaries of ranks here; "),
        ("report .", 3, ".: no recordings and no summaries of ranks here; "),
    ],
)
def test_a_current_folder_that_was_deleted_is_one_sentence(
    tmp_path: Path, words: str, code: int, sentence: str
) -> None:
    program = """
    import os, sys
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    os.execv(sys.executable, [sys.executable, "-m", "gpumemprof", *sys.argv[1:]])
    """
    write(tmp_path, ALLOCATE)
    done = run_program(tmp_path, program, *words.replace("..", str(tmp_path)).split())
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"gpumemprof: {sentence}")


def test_a_link_to_nowhere_is_not_followed_without_force(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE)
    (tmp_path / "run.gmp").symlink_to("elsewhere.gmp")
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "elsewhere.gmp").exists()


def test_a_recording_that_was_deleted_is_not_advertised(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE + "import os\nos.remove('run.gmp')\n")
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0
    assert "run.gmp" in done.stderr
    assert "deleted" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_recording_that_was_replaced_is_not_advertised(tmp_path: Path) -> None:
    write(
        tmp_path,
        ALLOCATE + "import os\nopen('mine', 'w').write('mine')\nos.rename('mine', 'run.gmp')\n",
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0
    assert "replaced" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Next" not in done.stderr
    assert (tmp_path / "run.gmp").read_text() == "mine"


def test_a_recording_that_was_moved_with_its_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, "import os\nos.chdir('/')\n" + ALLOCATE)
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert "Next: gpumemprof report run.gmp" in done.stderr


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import sys\nsys.exit(2)\n", "the program never imported torch"),
        ("import torch, argparse\nargparse.ArgumentParser().parse_args()\n", "no cpu memory was"),
        ("import torch\n1 / 0\n", "no cpu memory was allocated"),
        ("a b\n", "the program never imported torch"),
    ],
)
def test_a_recording_without_an_event_is_removed(
    tmp_path: Path, program: str, sentence: str
) -> None:
    write(tmp_path, program)
    done = run_recorded(tmp_path, "--cpu", "train.py", "--what")
    assert done.returncode in (1, 2)
    assert done.stderr.splitlines()[-1].startswith(f"gpumemprof: {sentence}")
    assert list(tmp_path.glob("*.gmp")) == []


def test_two_runs_of_one_name_do_not_spoil_each_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, sys, time, torch
        for _ in range(100): torch.empty(1000)
        print("ready", flush=True)
        sys.stdin.read()
        """,
    )
    words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-f", "-o", "run.gmp", "train.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, text=True, **pipes) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        second = subprocess.run(
            words,
            cwd=tmp_path,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        _, closing = first.communicate("")
    assert (second.returncode, second.stdout) == (2, "")
    assert "is being written by another recording" in second.stderr
    assert "100 allocations, 100 frees in run.gmp" in closing
    assert gpumemprof.load(tmp_path / "run.gmp").devices[0].counters.allocations == 100


def test_a_device_is_never_removed(tmp_path: Path) -> None:
    write(tmp_path, "import torch\n")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = run_recorded(tmp_path, "--cpu", "-f", "-o", "pipe", "train.py")
    os.close(reader)
    assert done.returncode == 0
    assert "no cpu memory was allocated" in done.stderr
    assert (tmp_path / "pipe").exists()


def test_the_end_of_a_long_run_takes_no_memory(tmp_path: Path) -> None:
    """A program that has used most of its memory limit still ends normally."""
    write(
        tmp_path,
        """
        import resource, torch
        for _ in range(700_000): torch.empty(100)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), used + (48 << 20)))
        print("done", flush=True)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.startswith("gpumemprof: 700,000 allocations, 700,000 frees in run.gmp"), (
        done.stderr
    )
    assert "peak 400 B on cpu:0" in done.stderr


SECRETS = ["--token", "hunter2", "--key=hunter2", "-phunter2", "hunter2", "lr=hunter2", "-1"]


def test_the_values_of_arguments_are_kept_on_request_alone(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE + "import os\nassert 'hunter2' not in str(os.environ)\n")
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py", *SECRETS)
    assert done.returncode == 0, done.stderr
    assert b"hunter2" not in (tmp_path / "run.gmp").read_bytes()
    facts = gpumemprof.load(tmp_path / "run.gmp").report()["input"]["facts"]
    assert facts["command"] == "train.py --token --key -p"
    run_recorded(
        tmp_path, "--record-arguments", "--cpu", "-f", "-o", "run.gmp", "train.py", *SECRETS
    )
    facts = gpumemprof.load(tmp_path / "run.gmp").report()["input"]["facts"]
    assert facts["command"] == " ".join(["train.py", *SECRETS])


def test_the_api_and_children_keep_no_values_either(tmp_path: Path) -> None:
    program = """
    import gpumemprof, os, sys, torch
    with gpumemprof.record("run.gmp", cpu=True):
        kept = torch.empty(1000)
    """
    done = run_program(tmp_path, program, *SECRETS)
    assert done.returncode == 0, done.stderr
    facts = gpumemprof.load(tmp_path / "run.gmp").report()["input"]["facts"]
    assert facts["command"].split()[1:] == ["--token", "--key", "-p"]


def test_the_closing_lines_fit_a_terminal(tmp_path: Path) -> None:
    name = "a_rather_long_name_of_a_training_script.py"
    write(tmp_path, ALLOCATE, name)
    done = run_recorded(tmp_path, "--cpu", name)
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[1].startswith(f"  in {Path(name).stem}.")
    assert lines[2] == "  peak 1000 B on cpu:0"
    assert all(len(line) <= 80 for line in lines[:3])


def test_a_closed_standard_error_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE)
    command = f"{sys.executable} -m gpumemprof run --cpu -o run.gmp train.py 2>&-"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert len(gpumemprof.load(tmp_path / "run.gmp").events) == 1


def test_an_exit_in_the_middle_ends_the_recording_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, torch
        for _ in range(5000): torch.empty(100)
        os._exit(3)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 3
    assert "5,000 allocations, 5,000 frees in run.gmp" in done.stderr
    recording = gpumemprof.load(tmp_path / "run.gmp")
    assert recording.devices[0].counters.allocations == 5000
    assert recording.report()["input"]["cut"] is None


def test_the_library_says_how_to_overwrite_in_python(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp"
    path.write_text("mine")
    with pytest.raises(gpumemprof.UsageError, match="overwrite=True") as caught:
        gpumemprof.start(path)
    assert "-f" not in str(caught.value)
    assert os.fspath(path) in str(caught.value)
