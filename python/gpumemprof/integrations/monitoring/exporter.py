"""``gpumemprof run --metrics``: a process beside the program that publishes its figures.

It reads the recordings that the program and its children write, as ``gpumemprof live`` does, so the
program does not notice: no thread, no lock and no request of a scraper reaches it. It is not a
child of the program, which may wait for its children, and ends with it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from gpumemprof.errors import EnvironmentProblem, UsageError
from gpumemprof.integrations.monitoring.figures import watcher_of
from gpumemprof.integrations.monitoring.prometheus import check_installed, look_until, serve
from gpumemprof.live.system_processes import is_running

__all__ = ["parse_address", "start"]

_LOOPBACK = "127.0.0.1"
_MOST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port of ``:9464``, ``9464`` or ``0.0.0.0:9464``.

    >>> parse_address(":9464"), parse_address("[::1]:0")
    (('127.0.0.1', 9464), ('::1', 0))

    Raises:
        UsageError: it is neither.
    """
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed:
        host = host[1:-1]
    is_number = port.isascii() and port.isdecimal() and len(port) <= 5
    if not is_number or int(port) > _MOST_PORT or (":" in host and not is_bracketed):
        raise UsageError(
            f"--metrics takes a port such as :9464, or a host and a port, but has '{text}'", "usage"
        )
    return host or _LOOPBACK, int(port)


def start(host: str, port: int, program: int) -> str:
    """Start the process; where its figures are.

    Raises:
        EnvironmentProblem: prometheus_client is missing, or the address cannot be used.
    """
    check_installed()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_exporter(host, port, program, writer)
    os.close(writer)
    os.waitpid(child, 0)  # The one in between; the exporter is nobody's child.
    with os.fdopen(reader, encoding="utf-8") as answer:
        said = answer.read()
    if not said.startswith("http"):
        where = f"{host}:{port}"
        reason = said or "it could not be started"
        raise EnvironmentProblem(
            f"metrics cannot be served at {where}: {reason}",
            "environment",
            "",
            "give another address to --metrics",
        )
    return said


def _be_the_exporter(host: str, port: int, program: int, writer: int) -> NoReturn:
    try:
        if os.fork() != 0:
            os._exit(0)
        os.setsid()  # Ctrl-C is for the program.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        # Who reads the program's output waits until nobody has it open any more.
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        _serve(host, port, program, writer)
    except BaseException as error:
        reason = getattr(error, "strerror", None) or str(error)
        os.write(writer, reason.encode("utf-8", "replace"))
    finally:
        os._exit(0)
    sys.exit(0)


def _serve(host: str, port: int, program: int, writer: int) -> None:
    collector, bound = serve(watcher_of(program), host, port)
    shown = f"[{host}]" if ":" in host else host
    os.write(writer, f"http://{shown}:{bound}/metrics".encode())
    os.close(writer)
    look_until(collector, lambda: not is_running(program))
