"""The terminal of a program that runs behind the screen of ``run --live``.

The program gets a terminal of its own (a pty), so that it prints what it would print on the user's.
All of it is kept, and goes to the user's terminal when the screen closes.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import sys
import tempfile
import termios
import threading
import tty
from collections import deque
from typing import Callable

__all__ = ["OutputLines", "ProgramTerminal"]

_MOST_LINES = 200
_MOST_CELLS = 2000
_PART_BYTES = 1 << 16
# Colours and movements: the pane of the screen shows plain text.
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
_STREAMS = (0, 1, 2)
_LOOK_SECONDS = 0.2


class OutputLines:
    """The last lines of what a program printed, as a terminal would show them.

    >>> lines = OutputLines()
    >>> lines.add(b"epoch 1\\n 10 %\\r 20 %")
    >>> lines.last()
    ['epoch 1', ' 20 %']
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._current = ""
        self._returns = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, text: bytes) -> None:
        """What was printed next."""
        for part in re.split(r"(\r|\n)", self._decoder.decode(text)):
            if part == "\n":
                self._lines.append(self._current)
                self._current, self._returns = "", False
            elif part == "\r":
                # The next characters overwrite the line; until they come, it stays.
                self._returns = True
            elif part:
                if self._returns:
                    self._current, self._returns = "", False
                self._current = (self._current + part)[:_MOST_CELLS]

    def last(self) -> list[str]:
        """The last of them, without colours; the last one may be unfinished."""
        shown = [*self._lines, self._current] if self._current else list(self._lines)
        return [_ESCAPES.sub("", line) for line in shown[-_MOST_LINES:]]


class ProgramTerminal:
    """A pty, what was printed to it, and the way back to the user's terminal."""

    def __init__(self) -> None:
        self.lines = OutputLines()
        self._kept = tempfile.TemporaryFile(prefix="gpumemprof-")  # noqa: SIM115 - until the end
        self._master, self._slave = pty.openpty()
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._slave, termios.TCSANOW, termios.tcgetattr(0))
        self._set_size()
        self._reader: threading.Thread | None = None
        self._wake = os.pipe()

    def _set_size(self) -> None:
        columns, rows = shutil.get_terminal_size()
        with contextlib.suppress(OSError):
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def enter(self) -> None:
        """In the child: make it the terminal of this process; what was redirected stays so."""
        os.setsid()
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        for stream in _STREAMS:
            if os.isatty(stream):
                os.dup2(self._slave, stream)
        for descriptor in (self._master, self._slave, *self._wake):
            os.close(descriptor)

    def start(self) -> None:
        """In the parent: keep what is printed, in a thread."""
        os.close(self._slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._master, self._wake[0]], [], [])
            if self._wake[0] in ready:
                return
            if not (text := self._next()):
                return
            self.lines.add(text)
            # A full disk must not stop the program.
            with contextlib.suppress(OSError):
                self._kept.write(text)

    def _next(self) -> bytes:
        try:
            return os.read(self._master, _PART_BYTES)
        except OSError as error:
            # This is how Linux says that nobody has the other end open.
            if error.errno != errno.EIO:
                raise
            return b""

    def interrupt(self) -> None:
        """What Ctrl-C would do."""
        with contextlib.suppress(OSError):
            os.write(self._master, b"\x03")

    def finish(self) -> None:
        """The program has ended: keep the last it printed."""
        if self._reader is not None:
            self._reader.join(timeout=2.0)

    def give_back(self, has_ended: Callable[[], bool]) -> None:
        """Print what was kept to the user's terminal, and join the two until the program ends.

        Args:
            has_ended: whether it has. What it started may live on with its terminal still open;
                nobody waits for that.
        """
        os.write(self._wake[1], b"x")
        if self._reader is not None:
            self._reader.join()
        sys.stdout.flush()
        self._kept.seek(0)
        self._set_size()
        before = termios.tcgetattr(0) if os.isatty(0) else None
        try:
            # The program's terminal has already turned every \n into \r\n.
            if before is not None:
                tty.setraw(0)
            while text := self._kept.read(_PART_BYTES):
                _write_all(1, text)
            self._join(has_ended)
        finally:
            if before is not None:
                termios.tcsetattr(0, termios.TCSAFLUSH, before)

    def _join(self, has_ended: Callable[[], bool]) -> None:
        sources = [self._master, 0] if os.isatty(0) else [self._master]
        while True:
            was_over = has_ended()
            ready, _, _ = select.select(sources, [], [], _LOOK_SECONDS)
            if was_over and self._master not in ready:
                return
            if 0 in ready:
                typed = os.read(0, _PART_BYTES)
                if typed:
                    _write_all(self._master, typed)
                else:
                    sources.remove(0)
            if self._master in ready:
                if not (text := self._next()):
                    return
                _write_all(1, text)


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]
