"""Records a program's processes: the one ``gpumemprof run`` starts, and those it starts in turn.

Each process has its own file. A process joins when it has torch (`join`, called by
``startup/sitecustomize.py``) or when it is forked from one that has joined. It writes what it
recorded to a small file, the registry, so that the first process can name all files at its end. A
failure here never affects the program: it keeps running, unrecorded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from gpumemprof.errors import Error, RecordingWarning
from gpumemprof.recorder import rank_summary, run_closing
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.program_end import reason_at_exit
from gpumemprof.recorder.run_settings import Settings, rank_suffix, recorded_command
from gpumemprof.recorder.simulation import Simulation
from gpumemprof.recorder.summary import ChildReport
from gpumemprof.torch_calls import readiness

if TYPE_CHECKING:
    from gpumemprof.holders.leaks_of_run import LeaksOfRun

__all__ = ["begin", "join", "leave"]

_USAGE_CODE = 2
_BUG_CODE = 70
# A program that starts new workers in every epoch would fill a folder.
_MOST_CHILDREN = 256

_settings: Settings | None = None
_ends: Callable[[str], None] | None = None
_process = 0  # the process whose end it is
_is_guarded = False


def begin() -> None:
    """Call in the process that runs the program, before its first line."""
    global _settings
    settings = Settings.read()
    if settings is None:
        return
    _settings = settings
    if settings.applied is not None:
        from gpumemprof.verify.apply import session

        session.begin(settings.applied)
    estimation = None
    if settings.estimate is not None:
        from gpumemprof.estimate.process import estimation as predicted

        estimation = predicted.begin(settings.estimate)
    try:
        recording = _start(
            settings, settings.output, settings.command, settings.force, simulation=estimation
        )
        registry = _make_registry() if settings.children else ""
    except OSError as error:
        run_closing.print_message(str(error))
        os._exit(_USAGE_CODE)
    except Error as error:
        if error.where:  # It is about the file, which the user chose.
            run_closing.print_message(str(error).replace("overwrite=True", "-f"))
            os._exit(_USAGE_CODE)
        run_closing.print_message(f"{error}; the program runs without being recorded")
        Settings.remove_from(os.environ)
        return
    except Exception as bug:
        run_closing.print_message(f"internal error: {bug!r}; please report it")
        os._exit(_BUG_CODE)
    settings.registry = registry
    Settings.remove_from(os.environ)
    if settings.children:
        environment = dict(os.environ)
        settings.add_to(environment, 0)
        os.environ.update(environment)
    file = run_closing.OutputFile(settings.output)
    leaks = _watch_leaks(recording, settings, settings.leaks_signal)
    _set_end(functools.partial(_end_program, recording, file, settings, leaks))
    _guard()


def join() -> None:
    """Call in a process that a recorded one started: records it from torch's import on."""
    global _settings
    _settings = Settings.read()
    if _settings is not None:
        _guard()
        _when_memory_is_used(_start_child)


def join_by_itself(settings: Settings) -> None:
    """Record this process and those it forks; no ``gpumemprof run`` has started it."""
    global _settings
    _settings = settings
    _guard()
    _when_memory_is_used(_start_child)


def leave() -> None:
    """This process is about to become another program, which `run` records separately."""
    waiting = getattr(sys.modules.get("_gpumemprof_import_watch"), "waiting", None)
    if waiting is not None:
        waiting.cancel()
    Settings.remove_from(os.environ)


def _start(
    settings: Settings,
    path: str,
    command: str,
    overwrite: bool,
    waits: bool = False,
    simulation: Simulation | None = None,
) -> ActiveRecording:
    recording = ActiveRecording(
        path,
        settings.stacks,
        settings.cpu,
        overwrite,
        settings.labels,
        command=command,
        waits=waits,
        simulation=simulation,
        keep=settings.keep,
        native_stacks=settings.native_stacks and simulation is None,
    )
    if simulation is None:
        rank_summary.follow_later(recording)
    if settings.alerts and simulation is None:
        from gpumemprof.alerts import recorded_run

        recorded_run.follow(settings, recording.memory == "cpu")
    return recording


def _watch_leaks(
    recording: ActiveRecording, settings: Settings, signal_name: str = ""
) -> LeaksOfRun | None:
    if not settings.leaks:
        return None
    from gpumemprof.holders.leaks_of_run import LeaksOfRun

    return LeaksOfRun(recording, signal_name)


def _make_registry() -> str:
    descriptor, path = tempfile.mkstemp(prefix="gpumemprof-", suffix=".children")
    os.close(descriptor)
    return path


def _guard() -> None:
    """Watch for the end of this process and for its forks."""
    global _is_guarded
    if _is_guarded:
        return
    _is_guarded = True
    # Registered before anything in the program, so it runs after all of it.
    atexit.register(_end_at_exit)
    os.register_at_fork(after_in_child=_after_fork)
    leave_at_once = os._exit

    # multiprocessing workers exit through it, and so do many programs that fork.
    @functools.wraps(leave_at_once)
    def _exit(*args: Any, **kwargs: Any) -> Any:
        _end(" ".join(["_exit", *map(str, args)]))
        leave_at_once(*args, **kwargs)

    os._exit = _exit


def _set_end(ends: Callable[[str], None]) -> None:
    global _ends, _process
    _ends, _process = ends, os.getpid()


def _end(how: str = "exit") -> None:
    global _ends
    ends, _ends = _ends, None
    if ends is not None and os.getpid() == _process:
        with contextlib.suppress(Exception):
            ends(how)


def _end_at_exit() -> None:
    _end(reason_at_exit())


def _after_fork() -> None:
    """In a forked child: what was recorded belongs to the parent; the child gets its own file."""
    global _ends
    _ends = None
    if _settings is not None and _settings.children:
        readiness.when_imported(lambda: _when_memory_is_used(_start_child))


def _when_memory_is_used(start: Callable[[], None]) -> None:
    """At once for CPU tensors; a worker that never touches the GPU gets no recorder at all."""
    settings = _settings
    if settings is None:
        return
    is_cpu = not readiness.has_cuda() if settings.cpu is None else settings.cpu
    if is_cpu:
        start()
    else:
        readiness.when_cuda_is_ready(start)


def _start_child() -> None:
    settings = _settings
    if settings is None or _ends is not None:
        return
    # This must have no visible effect: no exception, no line of output.
    with contextlib.suppress(Exception):
        if len(run_closing.read_children(settings.registry)) >= _MOST_CHILDREN:
            _report(settings, {"pid": os.getpid(), "path": None})
            return
        is_named = settings.announces == os.getpid() and not os.path.lexists(settings.output)
        path = settings.output if settings.output and is_named else _child_path(settings)
        command = recorded_command(sys.argv, settings.arguments)
        recording = _start(settings, path, command, overwrite=False, waits=True)
        _report(settings, {"pid": os.getpid(), "path": path})
        leaks = _watch_leaks(recording, settings)
        _set_end(functools.partial(_end_child, recording, settings, leaks))


def _child_path(settings: Settings) -> str:
    stem = f"{settings.children_base}{rank_suffix()}.{os.getpid()}"
    path, number = f"{stem}.gmp", 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}.{number}.gmp"
    return path


def _report(settings: Settings, row: ChildReport) -> None:
    line = json.dumps(row).encode() + b"\n"
    # A single append: several processes may do so at once.
    with contextlib.suppress(OSError):
        descriptor = os.open(settings.registry, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def _stop(recording: ActiveRecording, how: str) -> None:
    alerts = sys.modules.get("gpumemprof.alerts.recorded_run")
    if alerts is not None:
        alerts.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        recording.stop(how)


def _end_child(
    recording: ActiveRecording, settings: Settings, leaks: LeaksOfRun | None, how: str
) -> None:
    file = run_closing.OutputFile(run_closing.shown_path(recording.path))
    if leaks is not None:
        leaks.finish()
    _stop(recording, how)
    if not recording.summary:
        return
    if settings.announces == os.getpid() and recording.summary["events"] > 0:
        run_closing.print_closing(recording, file, {})
    row: ChildReport = {
        "pid": os.getpid(),
        "path": recording.path,
        "events": recording.summary["events"],
        "recorded": run_closing.what_is_recorded(recording.summary),
        "size_bytes": recording.summary["size_bytes"],
        "peaks": run_closing.peaks(recording),
        "notes": recording.notes,
    }
    _report(settings, row)
    _summarise(recording)


def _end_program(
    recording: ActiveRecording,
    file: run_closing.OutputFile,
    settings: Settings,
    leaks: LeaksOfRun | None,
    how: str,
) -> None:
    if leaks is not None:
        leaks.finish()
    _stop(recording, how)
    children = run_closing.read_children(settings.registry)
    if settings.registry:
        Path(settings.registry).unlink(missing_ok=True)
    if not settings.quiet:
        run_closing.print_closing(recording, file, children)
        if leaks is not None:
            leaks.print_found()
        _summarise(recording)


def _summarise(recording: ActiveRecording) -> None:
    """Last of all: the program may be ended while it waits for this."""
    if recording.is_rank and recording.summary.get("events", 0) > 0:
        rank_summary.write_beside(recording.path)
