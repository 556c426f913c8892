"""``gpumemprof run --alert``: follows the devices of a recorded program, without code."""

from __future__ import annotations

import contextlib
from typing import Protocol

from gpumemprof.alerts.condition import EVENTS
from gpumemprof.alerts.rule import Alert
from gpumemprof.alerts.tracker import MemoryTracker
from gpumemprof.errors import UsageError
from gpumemprof.printable import print_line
from gpumemprof.torch_calls import cards, readiness

__all__ = ["follow", "stop"]

_INTERVAL_S = 0.25
_started: list[MemoryTracker] = []


class Wanted(Protocol):
    """Of the settings of ``gpumemprof run``: what to watch, and where alerts go."""

    alerts: list[str]
    alert_webhook: str | None
    alert_command: str | None


def _print(alert: Alert) -> None:
    print_line(f"gpumemprof: alert: {alert.message}")


def _tracker(device: str, wanted: Wanted, alerts: list[str]) -> MemoryTracker:
    return MemoryTracker(
        device,
        interval=_INTERVAL_S,
        alerts=alerts,
        callback=_print,
        webhook=wanted.alert_webhook,
        command=wanted.alert_command,
    )


def _start(device: str, wanted: Wanted, alerts: list[str]) -> bool:
    """Whether to go on with other devices."""
    try:
        _started.append(_tracker(device, wanted, alerts).start())
    except UsageError as error:  # the same on all devices
        print_line(f"gpumemprof: {error}")
        return False
    except Exception as error:
        print_line(f"gpumemprof: alerts are off on {device}: {error}")
    return True


def follow(wanted: Wanted, is_cpu: bool) -> None:
    """Begin as soon as the program uses memory of this kind; nothing here reaches the program."""
    conditions = [text for text in wanted.alerts if text not in EVENTS]
    events = [text for text in wanted.alerts if text in EVENTS]
    if events:  # Of the program, and not of each device; it may fail before it uses any.
        tracker = _tracker("cpu", wanted, events)
        tracker._listen()
        _started.append(tracker)
    if not conditions:
        return

    def start() -> None:
        devices = ["cpu"] if is_cpu else [f"cuda:{index}" for index in cards.card_indices()]
        for device in devices:
            if not _start(device, wanted, conditions):
                return

    def begin() -> None:
        with contextlib.suppress(Exception):
            if is_cpu:
                start()
            else:
                readiness.when_cuda_is_ready(start)

    readiness.when_imported(begin)


def stop() -> None:
    """At the end of the program, before its recording ends: the last interval counts."""
    while _started:
        with contextlib.suppress(Exception):
            _started.pop().stop()
