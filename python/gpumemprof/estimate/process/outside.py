"""What leaves the process of a predicted program: it is real, so the answer lists it."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Outside"]

_MAX_LISTED = 100


class Outside:
    """The hosts that the program spoke to, and the programs that it started, in this process."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        """``host:port``, by name where it was looked up."""
        self.started: list[str] = []
        """Names of programs."""
        self._names: dict[str, str] = {}

    def watch(self) -> None:
        """From now on."""
        self._watch_sockets()
        self._watch_programs()

    def _watch_sockets(self) -> None:
        look_up = socket.getaddrinfo

        def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
            found = look_up(host, *arguments, **named)
            for *_, address in found:
                if isinstance(host, (str, bytes)):
                    name = host if isinstance(host, str) else os.fsdecode(host)
                    self._names[str(address[0])] = name
            return found

        socket.getaddrinfo = getaddrinfo
        for name in ("connect", "connect_ex", "sendto"):
            setattr(socket.socket, name, self._watched(getattr(socket.socket, name)))

    def _watched(self, real: Any) -> Any:
        def send(own: socket.socket, *arguments: Any) -> Any:
            if arguments and own.family in (socket.AF_INET, socket.AF_INET6):
                self._note_address(arguments[-1])
            return real(own, *arguments)

        return send

    def _note_address(self, address: Any) -> None:
        if not isinstance(address, tuple) or len(address) < 2:
            return
        host = str(address[0])
        if not host.startswith("127.") and host not in ("::1", "localhost", "0.0.0.0", "::"):
            _note(self.sent, f"{self._names.get(host, host)}:{address[1]}")

    def _watch_programs(self) -> None:
        start = subprocess.Popen.__init__
        system = os.system

        def watched(own: Any, args: Any, *more: Any, **named: Any) -> None:
            self._note_program(args)
            start(own, args, *more, **named)

        def watched_system(command: Any) -> int:
            self._note_program(command)
            return system(command)

        setattr(subprocess.Popen, "__init__", watched)  # noqa: B010 - it has overloads
        os.system = watched_system

    def _note_program(self, words: Any) -> None:
        if isinstance(words, (str, bytes)):
            try:
                words = shlex.split(os.fsdecode(words))
            except ValueError:
                return
        elif isinstance(words, os.PathLike):
            words = [words]
        if isinstance(words, Sequence) and words:
            _note(self.started, Path(os.fsdecode(words[0])).name)


def _note(entries: list[str], entry: str) -> None:
    if entry not in entries and len(entries) < _MAX_LISTED:
        entries.append(entry)
