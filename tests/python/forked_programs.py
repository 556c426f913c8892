"""Runs programs in forks of one process that has imported torch: importing it takes seconds.

For programs that need a process of their own but not a fresh interpreter. Run as a script, this is
the process that forks: it reads the path of a program from each line, runs it, and answers with its
exit code. The program's output is in files beside it.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import subprocess
import sys
import textwrap
import traceback
from functools import cache
from pathlib import Path

LIMIT_SECONDS = 120


@cache
def forking_process() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.kill)
    return process


def run_forked(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in this folder."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    process = forking_process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{script}\n")
    process.stdin.flush()
    code = int(process.stdout.readline())
    output, errors = ((folder / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess([str(script)], code, output, errors)


def run_here(script: Path) -> int:
    """In the fork: the exit code, as if Python had been started with the script."""
    os.chdir(script.parent)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123  (until the process ends)
    sys.argv, sys.path[0] = [str(script)], str(script.parent)
    signal.alarm(LIMIT_SECONDS)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    import torch._dynamo  # noqa: F401  (what all of this is for; optimizers import it at first use)

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = run_here(Path(line.rstrip("\n")))
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
