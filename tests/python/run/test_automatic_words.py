"""With GPUMEMPROF=1, one process says what was recorded, or why it was not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from automatic_runs import recordings, run_automatic, write

pytest.importorskip("torch")

ALLOCATE = "import torch\nkept = torch.empty(1000, dtype=torch.uint8)\nprint('done')\n"
LAUNCHER = """
import subprocess, sys
for _ in range(2): subprocess.run([sys.executable, "child.py"], check=True)
"""


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("/proc/none/run.gmp", "/proc/none: no recording can be written there (No such file"),
        ("train.py/run.gmp", "train.py: no recording can be written there (File exists"),
        ("s3://bucket/run.gmp", "s3://bucket/run.gmp: recordings are written to files of this"),
    ],
)
def test_output_that_cannot_be_written_is_said_in_one_line(
    tmp_path: Path, output: str, sentence: str
) -> None:
    done = run_automatic(tmp_path, program=ALLOCATE, GPUMEMPROF_OUTPUT=output)
    assert (done.returncode, done.stdout) == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpumemprof: ")
    assert sentence in line
    assert "so nothing is recorded; name " in line
    assert "GPUMEMPROF_OUTPUT" in line
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_output_that_cannot_be_written_is_said_once_for_all_processes(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE, "child.py")
    for program in (LAUNCHER, f"import torch\n{LAUNCHER}"):
        done = run_automatic(tmp_path, program=program, GPUMEMPROF_OUTPUT="/proc/none/run.gmp")
        assert (done.returncode, done.stdout) == (0, "done\n" * 2)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_folder_that_was_deleted_is_said_in_one_line(tmp_path: Path) -> None:
    program = """
    import os, shutil, sys
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    import gpumemprof.recorder.automatic, gpumemprof.recorder.registry as registry
    sys.modules["torch"] = None
    gpumemprof.recorder.automatic.begin(os.environ.get("GPUMEMPROF_FIRST", ""))
    print("done")
    """
    done = run_automatic(tmp_path, program=program)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert done.stderr.splitlines() == [
        "gpumemprof: the current folder was deleted, so nothing is recorded; "
        "name another file with GPUMEMPROF_OUTPUT"
    ]


LIMITED = """
import os, resource, signal, sys, torch
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
if sys.argv[1] == "files":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
else:
    resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
    taken = []
    try:
        while True: taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError: pass
kept = [torch.empty(1 + size * 37 % 10_007) for size in range(20_000)]
print("done")
"""


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (("files", "0"), "the file reached the largest size allowed here; raise the limit"),
        (("files", "80"), "the file reached the largest size allowed here; raise the limit"),
        (("files", "4096"), "the file reached the largest size allowed here; raise the limit"),
        (("descriptors",), "no more files can be opened here; raise the limit"),
    ],
)
def test_recording_that_could_not_be_written_leaves_one_line_and_no_file(
    tmp_path: Path, limit: tuple[str, ...], sentence: str
) -> None:
    write(tmp_path, LIMITED)
    done = run_automatic(tmp_path, "train.py", *limit)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert sentence in line
    assert recordings(tmp_path) == []


def test_run_under_a_limit_on_files_leaves_no_file(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE)
    program = """
    import os, resource, sys
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    words = [sys.executable, "-m", "gpumemprof", "run", "-o", "run.gmp", "train.py"]
    os.execv(sys.executable, words)
    """
    done = run_automatic(tmp_path, program=program, GPUMEMPROF="0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the file reached the largest size allowed here" in done.stderr
    assert recordings(tmp_path) == []


@pytest.mark.parametrize("start", ["", "import torch\n"], ids=["plain", "with torch"])
def test_launcher_names_what_its_children_recorded(tmp_path: Path, start: str) -> None:
    write(tmp_path, ALLOCATE, "child.py")
    done = run_automatic(tmp_path, program=start + LAUNCHER)
    assert done.returncode == 0
    names = recordings(tmp_path)
    first, *lines, last = done.stderr.splitlines()
    assert first == "gpumemprof: 2 child processes were recorded:"
    figures = "1 allocation, 0 frees, peak 1000 B on cpu:0"
    assert sorted(lines) == [f"  {name}: {figures}" for name in names]
    assert sorted(last.split()[3:]) == names


def test_child_that_fails_is_named_by_its_launcher(tmp_path: Path) -> None:
    write(tmp_path, LIMITED, "child.py")
    program = """
    import subprocess, sys
    subprocess.run([sys.executable, "child.py", "files", "4096"], check=True)
    """
    done = run_automatic(tmp_path, program=program)
    first, second = done.stderr.splitlines()
    assert first == "gpumemprof: 1 child process was not recorded:"
    assert "the file reached the largest size allowed here" in second
    assert done.returncode == 0


def test_process_that_outlives_the_first_one_speaks_for_itself(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import sys
        sys.stdin.read()  # until the first process has ended
        import torch
        kept = torch.empty(1000, dtype=torch.uint8)
        """,
        "child.py",
    )
    program = f"""
    import os, subprocess
    waits, end = os.pipe()
    subprocess.Popen([{sys.executable!r}, "child.py"], stdin=waits)
    """
    done = run_automatic(tmp_path, program=program)
    (name,) = recordings(tmp_path)
    assert done.returncode == 0
    assert f"1 allocation, 0 frees in {name}" in done.stderr
    assert done.stderr.count("gpumemprof: ") == 1


def test_program_that_becomes_another_one_still_speaks(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE, "child.py")
    program = "import os, sys, torch\nos.execv(sys.executable, [sys.executable, 'child.py'])\n"
    done = run_automatic(tmp_path, program=program)
    (name,) = recordings(tmp_path)
    assert done.returncode == 0
    assert f"Next: gpumemprof report {name}" in done.stderr


def test_nothing_is_said_of_programs_that_allocate_nothing(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nprint('done')\n", "child.py")
    done = run_automatic(tmp_path, program=f"import torch\n{LAUNCHER}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n" * 2, "")
    assert recordings(tmp_path) == []
