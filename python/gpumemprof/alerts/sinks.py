"""Sinks: where alerts go. Slow ones run in a thread of their own; none can harm the program."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import shlex
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
import warnings
from collections.abc import Sequence
from typing import Callable

from gpumemprof.alerts.rule import Alert
from gpumemprof.errors import RecordingWarning, UsageError
from gpumemprof.recorder.rank_facts import launcher_facts
from gpumemprof.recorder.run_settings import own_words, recorded_command

__all__ = [
    "BackgroundSink",
    "Sink",
    "command_sink",
    "logging_sink",
    "shown_address",
    "warnings_sink",
    "webhook_sink",
]

Sink = Callable[[Alert], object]
_TIMEOUT_S = 5.0
_MOST_WAITING = 256


def _process_facts() -> dict[str, str | int]:
    """Who says it: of a thousand ranks, the device alone says nothing."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "command": recorded_command(own_words(), False),
        **launcher_facts(os.environ),
    }


def warnings_sink(alert: Alert) -> None:
    """Issue a ``RecordingWarning``."""
    warnings.warn(alert.message, RecordingWarning, stacklevel=2)


def logging_sink(logger: str | logging.Logger = "gpumemprof") -> Sink:
    """Log a warning."""
    target = logging.getLogger(logger) if isinstance(logger, str) else logger

    def log(alert: Alert) -> None:
        target.warning("%s", alert.message, extra={"alert": alert.to_dict()})

    return log


def shown_address(url: str) -> str:
    """The address without what may be secret: chat services accept whoever knows the path.

    >>> shown_address("https://user:word@hooks.example/T0/B1/xyz?key=1")
    'the webhook at hooks.example'
    """
    return f"the webhook at {_host_of(url) or 'an unknown host'}"


def _host_of(url: str) -> str | None:
    try:
        return urllib.parse.urlsplit(url).hostname
    except ValueError:  # brackets that do not close
        return None


def webhook_sink(url: str, timeout_s: float = _TIMEOUT_S) -> Sink:
    """Send the alert as JSON with HTTP POST."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"a webhook is an http or https address, not '{url}'", "usage")
    if not _host_of(url):
        raise UsageError("a webhook's address names no host", "usage")

    def post(alert: Alert) -> None:
        # "text" is what chat services show.
        who = _process_facts()
        rank = f"rank {who['rank']} on " if "rank" in who else ""
        text = f"gpumemprof: {rank}{who['host']}: {alert.message}"
        body = json.dumps({"text": text, **alert.to_dict(), **who}).encode()
        request = urllib.request.Request(
            url, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            answer.read(1)

    return post


def command_sink(command: str | Sequence[str], timeout_s: float = 60.0) -> Sink:
    """Run a command; it finds the alert as JSON on its input and in GPUMEMPROF_ALERT."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:  # a quotation mark that does not close
        raise UsageError(f"an alert's command cannot be read: {error}", "usage") from error
    if not words:
        raise UsageError("an alert's command is empty", "usage")

    def run(alert: Alert) -> None:
        environment = {**os.environ, "GPUMEMPROF_ALERT": alert.message}
        for name in ("GPUMEMPROF", "GPUMEMPROF_RUN"):  # the command is not to be recorded
            environment.pop(name, None)
        done = subprocess.run(
            words,
            input=json.dumps({**alert.to_dict(), **_process_facts()}).encode(),
            env=environment,
            stdout=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"it ended with exit code {done.returncode}")

    return run


class BackgroundSink:
    """Passes alerts to a slow sink from a thread of its own; a failure is one warning."""

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._waiting: queue.Queue[Alert | None] = queue.Queue(_MOST_WAITING)
        self._has_warned = False
        self._thread: threading.Thread | None = None

    def __call__(self, alert: Alert) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpumemprof-alerts", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):  # it is stuck; the program is not to wait for it
            self._waiting.put_nowait(alert)

    def close(self, timeout_s: float = _TIMEOUT_S + 1) -> None:
        """Wait for what is under way, for a while."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        thread.join(timeout_s)

    def _run(self) -> None:
        while (alert := self._waiting.get()) is not None:
            self._pass_on(alert)

    def _pass_on(self, alert: Alert) -> None:
        try:
            self._sink(alert)
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        sentence = (
            f"an alert could not be passed to {self._name}: {error}; further failures are ignored"
        )
        with contextlib.suppress(Exception):  # warnings may be errors in this program
            warnings.warn(sentence, RecordingWarning, stacklevel=2)
