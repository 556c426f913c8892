"""``gpumemprof run --live``: runs the program in a child process and shows its memory meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from gpumemprof.live.command import has_screen
from gpumemprof.live.plain import PlainLines
from gpumemprof.live.program_terminal import ProgramTerminal
from gpumemprof.live.targets import AwaitedFile, ProcessTarget
from gpumemprof.live.watcher import Watcher

__all__ = ["run"]

_LINE_SECONDS = 5.0
_CANNOT_RUN_CODE = 126


class _Child:
    """The program's process: whether it has ended, and how."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        _, self.status = os.waitpid(self.pid, 0)
        self._ended.set()

    def has_ended(self) -> bool:
        """Whether it has."""
        return self._ended.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        return self._ended.wait(seconds)


def run(become: Callable[[], None], output_of: Callable[[int], str]) -> int:
    """Run the program to its end.

    Args:
        become: turns a child process into the program.
        output_of: the recording of the process with this number.

    Returns:
        The program's exit code. If a signal killed it, the same signal ends this process.
    """
    terminal = ProgramTerminal() if has_screen() else None
    pid = os.fork()
    if pid == 0:
        _be_program(become, terminal)
    child = _Child(pid)
    watcher = Watcher([AwaitedFile(Path(output_of(pid))), ProcessTarget(pid)])
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
    if terminal is not None:
        _show_screen(child, watcher, terminal)
    else:
        # Ctrl-C is for the program, which has the same terminal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _print_lines(child, watcher)
    return _end_alike(child.status or 0)


def _be_program(become: Callable[[], None], terminal: ProgramTerminal | None) -> None:
    try:
        if terminal is not None:
            terminal.enter()
        become()
    except BaseException as error:
        os.write(2, f"gpumemprof: the program could not be started: {error}\n".encode())
    os._exit(_CANNOT_RUN_CODE)


def _show_screen(child: _Child, watcher: Watcher, terminal: ProgramTerminal) -> None:
    from gpumemprof.live.screen.app import LiveScreen
    from gpumemprof.live.screen.frame import Frame

    class Lines(Sequence[str]):
        """Always the newest."""

        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            return terminal.lines.last()[index]

        def __len__(self) -> int:
            return len(terminal.lines.last())

    terminal.start()
    frame = Frame(watcher, output=Lines(), quits="leave it running")
    LiveScreen(frame, is_over=child.has_ended, interrupt=terminal.interrupt).run()
    if child.has_ended():
        terminal.finish()
    terminal.give_back(child.has_ended)
    child.wait()


def _print_lines(child: _Child, watcher: Watcher) -> None:
    lines = PlainLines(watcher)

    def say(sentences: Sequence[str]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for sentence in sentences:
                print(f"gpumemprof: {sentence}", file=sys.stderr, flush=True)

    while not child.wait(_LINE_SECONDS):
        watcher.look()
        say(lines.lines())
    watcher.look()
    if watcher.recordings:
        say(lines.lines())
    if child.status is not None and os.WIFSIGNALED(child.status):
        with contextlib.suppress(ValueError):  # some numbers have no name
            name = signal.Signals(os.WTERMSIG(child.status)).name
            say([f"the program was killed by {name}"])


def _end_alike(status: int) -> int:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)
