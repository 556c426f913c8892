"""The options of a recording, as ``gpumemprof run`` and GPUMEMPROF_OPTIONS take them."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
from collections.abc import Sequence

from gpumemprof.alerts.condition import parse as parse_alert
from gpumemprof.alerts.sinks import command_sink, webhook_sink
from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error
from gpumemprof.recorder import kept
from gpumemprof.recorder.run_settings import Settings

__all__ = ["add_options", "options_of_environment", "settings_of"]

VARIABLE = "GPUMEMPROF_OPTIONS"


def add_options(parser: CommandParser) -> None:
    """Those that say what is recorded, and what else is done with it."""
    parser.add_argument("--keep")
    parser.add_argument("--no-children", action="store_false", dest="children")
    parser.add_argument("--no-stacks", action="store_false", dest="stacks")
    parser.add_argument("--native-stacks", action="store_true")
    parser.add_argument("--no-labels", action="store_false", dest="labels")
    parser.add_argument("--cpu", action="store_true", default=None)
    parser.add_argument("--leaks", action="store_true")
    parser.add_argument("--leaks-signal")
    parser.add_argument("--record-arguments", action="store_true")
    parser.add_argument("--alert", action="append", default=[])
    parser.add_argument("--alert-webhook")
    parser.add_argument("--alert-command")
    parser.add_argument("--metrics")


def settings_of(parser: CommandParser, given: argparse.Namespace) -> Settings:
    """What was given.

    Raises:
        Error: a value is wrong, or options exclude each other.
    """
    _check_sinks(parser, given)
    if given.native_stacks and not given.stacks:
        raise parser.mistake("--native-stacks and --no-stacks exclude each other")
    return Settings(
        stacks=given.stacks,
        native_stacks=given.native_stacks,
        labels=given.labels,
        cpu=given.cpu,
        children=given.children,
        arguments=given.record_arguments,
        alerts=[parse_alert(text).text for text in given.alert],
        alert_webhook=given.alert_webhook,
        alert_command=given.alert_command,
        keep=kept.kept_bytes(given.keep, "--keep") or None,
        leaks=given.leaks,
        leaks_signal=_leaks_signal(parser, given.leaks, given.leaks_signal),
        metrics=_metrics_address(given.metrics),
    )


def _metrics_address(text: str | None) -> tuple[str, int] | None:
    """Where to publish; the ranks of a host have ports of their own, one after the other."""
    if text is None:
        return None
    from gpumemprof.integrations.monitoring.exporter import parse_address
    from gpumemprof.integrations.monitoring.prometheus import check_installed

    host, port = parse_address(text)
    check_installed()
    local_rank = os.environ.get("LOCAL_RANK", "0")
    return host, port + (int(local_rank) if port and local_rank.isdecimal() else 0)


def _check_sinks(parser: CommandParser, given: argparse.Namespace) -> None:
    for name, make in (("webhook", webhook_sink), ("command", command_sink)):
        target = getattr(given, f"alert_{name}")
        if target is not None and not given.alert:
            raise parser.mistake(f"--alert-{name} needs --alert")
        if target is not None:
            make(target)  # says what is wrong with it before the program starts


def _leaks_signal(parser: CommandParser, is_wanted: bool, name: str | None) -> str:
    if name is not None and not is_wanted:
        raise parser.mistake("--leaks-signal needs --leaks")
    if name is None or name == "none":
        return "SIGUSR2" if is_wanted and name is None else ""
    full = name if name.startswith("SIG") else f"SIG{name}"
    if full not in signal.Signals.__members__:
        raise parser.mistake(f"--leaks-signal takes a signal such as SIGUSR1, but has '{name}'")
    return full


def options_of_environment(text: str) -> tuple[Settings, list[str]]:
    """The options in GPUMEMPROF_OPTIONS, and what is wrong with those that are left out.

    >>> settings, mistakes = options_of_environment("--no-stacks --kep 2GiB")
    >>> settings.stacks, mistakes
    (False, ["unknown flag '--kep', did you mean '--keep'?"])
    """
    parser = CommandParser("gpumemprof run", "")
    add_options(parser)

    def settings(words: Sequence[str]) -> Settings:
        return settings_of(parser, parser.parse(words))

    try:
        words = shlex.split(text)
    except ValueError as mistake:
        return Settings(), [str(mistake)]
    try:
        return settings(words), []
    except Error:
        accepted: list[str] = []
        waiting = _each_option(parser, words)
    while True:
        mistakes = []
        refused = []
        for option in waiting:
            try:
                settings([*accepted, *option])
                accepted += option
            except Error as mistake:  # noqa: PERF203 - each may be wrong
                mistakes.append(str(mistake))
                refused.append(option)
        # An option may need one that comes later.
        if len(refused) in (0, len(waiting)):
            return settings(accepted), mistakes
        waiting = refused


def _each_option(parser: CommandParser, words: Sequence[str]) -> list[list[str]]:
    """Each with its value."""
    options: list[list[str]] = []
    for word in words:
        is_value = bool(options) and len(options[-1]) == 1 and parser.may_take_value(options[-1][0])
        if word.startswith("-") or not is_value:
            options.append([])
        options[-1].append(word)
    return options
