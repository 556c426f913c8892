"""Writes the summary of a rank beside its recording when the process ends.

Another process reads the recording: this one may have little memory left. The summary appears as a
whole or not at all, and whatever goes wrong is ignored: `gpumemprof ranks` reads the recording
itself where there is no summary.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpumemprof import _core

__all__ = ["SUFFIX", "main", "write_beside"]

SUFFIX = ".summary.json"
# Then this process ends, and the other one goes on alone.
_MOST_SECONDS = 20.0
_NICENESS = 10
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from gpumemprof.recorder.rank_summary import main; main(sys.argv[2])"
)


def write_beside(recording: str) -> None:
    """Have the summary made; waits for it, but not long."""
    if os.environ.get("GPUMEMPROF_SUMMARY", "1") == "0" or not sys.executable:
        return
    folder = str(Path(__file__).resolve().parents[2])
    # Isolated: nothing in the program's environment is to run there, least of all a recorder.
    words = [sys.executable, "-I", "-S", "-c", _CODE, folder, str(Path.cwd() / recording)]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the job's processes does not end it halfway
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MOST_SECONDS)
        process.returncode = process.returncode or 0  # No warning about one that still runs.


def main(recording: str) -> None:
    """In the other process."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    text = _core.rank_summary(os.fsencode(recording))
    path = Path(recording + SUFFIX)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
