"""Processes started by a recorded program are recorded too, each into a file of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_recorded

# Each worker keeps as many bytes as it is asked to, and the program some of its own.
WORKERS = """
import multiprocessing, sys, time
def work(size):
    import torch
    kept = torch.empty(size, dtype=torch.uint8)
    spare = torch.empty(1000, dtype=torch.uint8)
    del spare
if __name__ == "__main__":
    import torch
    own = torch.empty(500_000, dtype=torch.uint8)
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work, args=(size,)) for size in (1_000_000, 2_000_000)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert all(worker.exitcode == 0 for worker in workers)
"""


def write(folder: Path, program: str, name: str = "train.py") -> None:
    (folder / name).write_text(textwrap.dedent(program))


def run_peaks(folder: Path, *patterns: str) -> list[int | None]:
    """The peaks of the recordings in a folder, sorted by size."""
    paths = [path for pattern in patterns or ("*.gmp",) for path in folder.glob(pattern)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpumemprof.CutFileWarning)
        recordings = [gpumemprof.load(path) for path in paths]
    for recording in recordings:
        assert recording.devices[0].exact_from_event == 0
    return sorted(recording.devices[0].peak.allocated_bytes for recording in recordings)


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(tmp_path: Path, way: str) -> None:
    write(tmp_path, WORKERS)
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py", way)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert run_peaks(tmp_path, "run.gmp") == [500_000]
    children = sorted(path.name for path in tmp_path.glob("run.*.gmp"))
    assert all(re.fullmatch(r"run\.\d+\.gmp", name) for name in children)
    assert run_peaks(tmp_path, "run.*.gmp") == [1_001_000, 2_001_000]
    for name in children:
        # It ended cleanly, under os._exit too.
        assert gpumemprof.load(tmp_path / name).report()["input"]["cut"] is None
        facts = gpumemprof.load(tmp_path / name).report()["input"]["facts"]
        assert facts["pid"] == name.split(".")[1]
    lines = done.stderr.splitlines()
    assert lines[0].startswith("gpumemprof: 1 allocation, 0 frees in run.gmp")
    assert lines[1] == "gpumemprof: 2 child processes were recorded:"
    assert lines[-1].split() == ["Next:", "gpumemprof", "report", "run.gmp", *lines[-1].split()[4:]]
    assert sorted(lines[-1].split()[4:]) == children
    assert len(lines) == 5


def test_stacks_and_names_of_a_forked_worker(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, torch
        model = torch.nn.Linear(100, 100)
        optimizer = torch.optim.Adam(model.parameters())
        if os.fork() == 0:
            for _ in range(3):
                model(torch.ones(10, 100)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            os._exit(0)
        assert os.wait()[1] == 0
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("run.*.gmp")
    recording = gpumemprof.load(path)
    lines = {
        (Path(group.stack[-1].file).name, group.stack[-1].line)
        for group in recording.devices[0].live_at_peak
        if group.stack
    }
    assert ("train.py", 8) in lines
    assert "weight exp_avg" in {label.name for label in recording.labels()}


def test_a_forked_child_does_not_look_at_everything_that_its_parent_made(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import gc, os, torch
        model, parent, all_objects = torch.nn.Linear(100, 100), os.getpid(), gc.get_objects
        def noting(*args):
            with open("parent" if os.getpid() == parent else "child", "a") as file:
                file.write("looked")
            return all_objects(*args)
        gc.get_objects = noting
        if os.fork() == 0:
            kept = torch.ones(1000)
            os._exit(0)
        assert os.wait()[1] == 0
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert run_peaks(tmp_path, "run.*.gmp") == [4000]
    assert (tmp_path / "parent").exists()  # It names its model at the end.
    assert not (tmp_path / "child").exists()


def test_no_children(tmp_path: Path) -> None:
    write(tmp_path, WORKERS)
    done = run_recorded(tmp_path, "--no-children", "--cpu", "-o", "run.gmp", "train.py", "fork")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("*.gmp")] == ["run.gmp"]
    assert "child" not in done.stderr


def test_a_process_of_the_same_python_and_its_own_children(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import json, os, subprocess, sys
        depth = int(sys.argv[1])
        if depth > 0:
            subprocess.run([sys.executable, __file__, str(depth - 1)], check=True, cwd="/")
        import torch
        kept = torch.empty(1000 * (depth + 1), dtype=torch.uint8)
        print(depth, sys.argv, flush=True)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "train.py", "2")
    assert done.returncode == 0, done.stderr
    assert [line[0] for line in done.stdout.splitlines()] == ["0", "1", "2"]
    assert run_peaks(tmp_path, "train.*.gmp") == [1000, 2000, 3000]
    assert done.stderr.count("Next: gpumemprof report train.") == 1
    assert "2 child processes were recorded" in done.stderr


def test_only_processes_that_allocate_leave_a_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import multiprocessing, os, signal, subprocess, sys, torch
        def nothing(): pass
        def dies(): os.kill(os.getpid(), signal.SIGKILL)
        if __name__ == "__main__":
            subprocess.run([sys.executable, "-c", "import torch"], check=True)
            subprocess.run([sys.executable, "-c", "print('no torch')"], check=True)
            subprocess.run(["true"], check=True, preexec_fn=nothing)
            for target in (nothing, dies):
                worker = multiprocessing.get_context("fork").Process(target=target)
                worker.start()
                worker.join()
            if os.fork() == 0: os.execv("/bin/true", ["true"])
            os.wait()
            kept = torch.empty(1000)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "train.py")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.gmp"))) == 1
    assert "child" not in done.stderr
    assert list(tmp_path.iterdir()) != []


def test_the_children_are_told_where_the_program_itself_has_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import subprocess, sys
        program = "import torch; kept = torch.empty(1000, dtype=torch.uint8)"
        subprocess.run([sys.executable, "-c", program], check=True)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    (path,) = tmp_path.glob("*.gmp")
    assert done.stderr.splitlines() == [
        "gpumemprof: 1 child process was recorded:",
        f"  {path.name}: 1 allocation, 0 frees, peak 1000 B on cpu:0",
        f"Next: gpumemprof report {path.name}",
    ]


def test_ranks_of_torchrun_started_under_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        kept = torch.empty(1_000_000 * (1 + dist.get_rank()), dtype=torch.uint8)
        total = torch.ones(1)
        dist.all_reduce(total)
        dist.destroy_process_group()
        """,
        "ddp.py",
    )
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", *launcher, "ddp.py")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        (path,) = tmp_path.glob(f"run.*.rank{rank}.*.gmp")
        recording = gpumemprof.load(path)
        assert recording.report()["input"]["facts"]["rank"] == str(rank)
        peak = recording.devices[0].peak.allocated_bytes
        assert peak is not None
        assert 1_000_000 * (1 + rank) <= peak < 1_000_000 * (1 + rank) + 10_000
        assert path.name in done.stderr
    assert done.stderr.splitlines()[-1] == "Next: gpumemprof ranks ."


def test_children_are_named_after_the_script_that_they_run(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    allocate = "import os, torch\nkept = torch.ones(10)\n"
    write(tmp_path, allocate + "if os.fork() == 0: more = torch.ones(10)\n", "ddp.py")
    write(tmp_path, allocate, "tools/__main__.py")
    write(
        tmp_path,
        f"""
        import subprocess, sys, torch
        kept = torch.ones(10)
        for words in (["-X", "dev", "ddp.py"], ["-m", "tools"], ["-c", {allocate!r}]):
            subprocess.run([sys.executable, *words], check=True)
        """,
        "launch.py",
    )
    done = run_recorded(tmp_path, "--cpu", "-m", "launch")
    assert done.returncode == 0, done.stderr
    found = sorted(path.name.split(".")[0] for path in tmp_path.glob("*.gmp"))
    assert found == ["ddp", "ddp", "launch", "launch", "tools"]


def test_what_a_worker_that_was_ended_by_force_had_written(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import multiprocessing, time, torch
        def work(queue):
            kept = torch.empty(1_000_000, dtype=torch.uint8)
            time.sleep(1.5)
            queue.put(1)
            time.sleep(60)
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            worker = context.Process(target=work, args=(queue,))
            worker.start()
            queue.get()
            worker.terminate()
            worker.join()
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert run_peaks(tmp_path, "run.*.gmp") == [1_000_000]
    assert "has not ended yet, or was killed" in done.stderr


CHILD = """
import json, os, sys
print(json.dumps({
    "path": sys.path, "argv": sys.argv, "flags": repr(sys.flags), "names": sorted(globals()),
    "site": repr(sys.modules.get("sitecustomize")), "spec": repr(__spec__),
    "modules": sorted(set(sys.modules) - {"__future__", "_gpumemprof_import_watch"}),
    "cache": sorted(sys.path_importer_cache),
}))
"""


@pytest.mark.parametrize("flags", [[], ["-O"], ["-I"], ["-E"], ["-s", "-u"]])
def test_a_child_is_as_it_would_be(tmp_path: Path, flags: list[str]) -> None:
    write(tmp_path, CHILD, "child.py")
    write(
        tmp_path,
        """
        import subprocess, sys
        sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
        """,
    )
    words = [*flags, "child.py", "-x"]
    plain = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=True)
    recorded = run_recorded(tmp_path, "--cpu", "train.py", *words)
    assert recorded.stdout.encode() == plain.stdout


def test_a_fork_in_the_middle_of_allocations_neither_waits_nor_mixes(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, threading, time, torch
        is_over = False
        def allocate():
            while not is_over:
                torch.empty(1000)
                time.sleep(0.0005)
        threads = [threading.Thread(target=allocate) for _ in range(3)]
        [thread.start() for thread in threads]
        for number in range(9):
            child = os.fork()
            if child == 0:
                kept = torch.empty(1_000_000 + number, dtype=torch.uint8)
                os._exit(number)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == number
        is_over = True
        [thread.join() for thread in threads]
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert run_peaks(tmp_path, "run.*.gmp") == [1_000_000 + number for number in range(9)]
    (own,) = run_peaks(tmp_path, "run.gmp")
    assert own is not None
    assert own <= 12_000
    assert "… and 1 more" in done.stderr
    assert "Next: gpumemprof report run.gmp run.*.gmp" in done.stderr


def test_a_folder_is_not_filled_with_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, torch
        from gpumemprof.recorder import processes
        processes._MOST_CHILDREN = 2
        for number in range(4):
            if os.fork() == 0:
                kept = torch.empty(1000)
                os._exit(0)
            os.wait()
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("run.*.gmp"))) == 2
    assert "2 more child processes were not recorded" in done.stderr


def test_a_program_that_outlives_its_parent(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, subprocess, sys
        program = "import sys, time, torch; kept = torch.empty(1000); time.sleep(2)"
        subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    end = time.monotonic() + 60
    while not list(tmp_path.glob("run.*.gmp")) and time.monotonic() < end:
        time.sleep(0.1)
    assert len(list(tmp_path.glob("run.*.gmp"))) == 1


def test_run_inside_run_has_its_own_recording(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nkept = torch.empty(1000, dtype=torch.uint8)\n", "inner.py")
    write(
        tmp_path,
        """
        import subprocess, sys
        words = ["-m", "gpumemprof", "run", "--cpu", "-o", "inner.gmp", "inner.py"]
        subprocess.run([sys.executable, *words], check=True)
        """,
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "outer.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("*.gmp")] == ["inner.gmp"]
    assert "Next: gpumemprof report inner.gmp" in done.stderr


def test_the_program_is_ended_by_a_signal_as_ever(tmp_path: Path) -> None:
    write(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert run_recorded(tmp_path, "--cpu", "train.py").returncode == -signal.SIGTERM
    assert os.name == "posix"


# torch runs what waits for CUDA while it holds a lock that the same thread cannot take twice.
CUDA_STARTS = """
import torch
from gpumemprof.torch_calls import readiness
calls = []
def outer():
    calls.append("outer")
    readiness.when_cuda_is_ready(lambda: calls.append("inner"))
readiness.when_cuda_is_ready(outer)
assert not calls
with torch.cuda._initialization_lock:
    torch.cuda._tls.is_initializing = True
    torch.cuda._queued_calls[-1][0]()
print(calls)
"""


def test_a_child_is_recorded_from_within_the_start_of_cuda():
    done = subprocess.run(
        [sys.executable, "-c", CUDA_STARTS], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "['outer', 'inner']\n", done.stderr
