"""Writes the summary of a rank beside its recording: every minute while it runs, and at its end.

Another process reads the recording: this one may have little memory left, and training is not to
notice. While the rank runs, the recorder's own thread starts that process once, after the first
minute (`follow`); it ends with the rank, after a last look, so that a rank that is killed leaves a
summary too. At the end of the program `write_beside` makes the last one. A summary appears as a
whole or not at all, and whatever goes wrong is ignored: `gpumemprof ranks` reads the recording
itself where there is no summary.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpumemprof import _core
from gpumemprof.regular_file import open_regular

if TYPE_CHECKING:
    from gpumemprof.recorder.active import ActiveRecording

__all__ = ["SUFFIX", "follow", "follow_later", "main", "write_beside"]

SUFFIX = ".summary.jsonl"
# Then this process ends, and the other one goes on alone.
_MOST_SECONDS = 20.0
_NICENESS = 10
_USUAL_SECONDS = 60.0
# A long recording takes seconds to read: at most a twentieth of one processor is used for it.
_LEAST_REST = 20.0
_MOST_FILES = 65536
_MOST_HEAD_BYTES = 1 << 26
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from gpumemprof.recorder import rank_summary; "
)
_MAIN = _CODE + "rank_summary.main(sys.argv[2])"
_FOLLOW = _CODE + "rank_summary.follow(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))"


def _is_off() -> bool:
    return os.environ.get("GPUMEMPROF_SUMMARY", "1") == "0" or not sys.executable


def _words(code: str, recording: str) -> list[str]:
    folder = str(Path(__file__).resolve().parents[2])
    # Isolated: nothing in the program's environment is to run there, least of all a recorder.
    return [sys.executable, "-I", "-S", "-c", code, folder, str(Path.cwd() / recording)]


def follow_later(recording: ActiveRecording) -> None:
    """Have summaries written while the program runs, from the first minute on."""
    if _is_off():
        return
    seconds = _USUAL_SECONDS
    with contextlib.suppress(ValueError):
        seconds = float(os.environ.get("GPUMEMPROF_SUMMARY_SECONDS", seconds))
    if not 0 < seconds < float("inf"):
        return
    words = [*_words(_FOLLOW, recording.path), str(os.getpid()), str(seconds)]
    encoded = list(map(os.fsencode, words))
    recording.when_rank(lambda: recording.start_later(encoded, seconds))


def write_beside(recording: str) -> None:
    """Have the last summary made; waits for it, but not long."""
    if _is_off():
        return
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        process = subprocess.Popen(
            _words(_MAIN, recording),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the job's processes does not end it halfway
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MOST_SECONDS)
        process.returncode = process.returncode or 0  # No warning about one that still runs.


def follow(recording: str, process: int, seconds: float) -> None:
    """In the other process: a summary now, then again and again until `process` has ended."""
    os.closerange(3, _MOST_FILES)  # Where the kernel could not do that before.
    _yield_to_training()
    waits_for_end = _end_of(process)
    has_ended = False
    while not has_ended and Path(recording).exists():
        spent = _look(recording, is_running=True)
        has_ended = waits_for_end(max(seconds, _LEAST_REST * spent))
    # What it wrote last is in the file by now.
    if has_ended:
        _look(recording, is_running=False)


def _yield_to_training() -> None:
    """Once: one that yields more gets next to nothing where all processors are busy."""
    with contextlib.suppress(OSError):
        os.nice(max(0, _NICENESS - os.nice(0)))


def _end_of(process: int) -> Callable[[float], bool]:
    """A function that waits so many seconds, and says whether the process has ended by then."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return lambda seconds: True
    except (AttributeError, OSError):  # an old kernel
        return lambda seconds: _ends_within(process, seconds)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda seconds: bool(poll.poll(seconds * 1000))


def _ends_within(process: int, seconds: float) -> bool:
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(min(1.0, seconds))
    return False


def _look(recording: str, is_running: bool) -> float:
    """Write the summary if the recording has changed; the seconds of processor time it took."""
    if not _has_changed(recording):
        return 0.0
    # In a process of its own: its memory is returned as a whole.
    child = os.fork()
    if child == 0:
        code = 1
        try:
            main(recording, is_running)
            code = 0
        finally:
            os._exit(code)
    _, _, used = os.wait4(child, 0)
    return used.ru_utime + used.ru_stime


def _has_changed(recording: str) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        head = _head(Path(recording + SUFFIX))
        size = head["recording_bytes"]
        is_file = isinstance(size, int) and size > 0
        return not is_file or Path(recording).stat().st_size != size
    return True


def _head(summary: Path) -> dict[str, object]:
    with open_regular(summary) as file:
        head = json.loads(file.readline(_MOST_HEAD_BYTES))
    return head if isinstance(head, dict) else {}


def _age(head: dict[str, object]) -> tuple[int, int]:
    """How much of the run it has seen; a later one has seen more."""
    numbers = [head.get(key) for key in ("recording_bytes", "last_unix_ns")]
    first, second = (number if isinstance(number, int) else 0 for number in numbers)
    return first, second


def main(recording: str, is_running: bool = False) -> None:
    """In the other process."""
    _yield_to_training()
    text = _core.rank_summary(os.fsencode(recording), is_running)
    head = json.loads(text.partition(b"\n")[0])
    if not head["devices"]:
        return  # It has not used any memory yet.
    path = Path(recording + SUFFIX)
    # Two may be at it at the end of a program; the one that has read less must not come last.
    with contextlib.suppress(OSError, ValueError):
        if _age(_head(path)) > _age(head):
            return
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
