"""Records a program's processes: the one ``gpumemprof run`` starts, and those it starts in turn.

Each process has its own file. A process joins when it has torch (`join`, called by
``startup/sitecustomize.py``) or when it is forked from one that has joined. It tells the registry
what it recorded, or why it could not, so that the first process can name all files at its end. A
failure here never affects the program: it keeps running, unrecorded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable

from gpumemprof import _core
from gpumemprof.errors import Error, RecordingWarning
from gpumemprof.recorder import places, rank_summary, registry, run_closing
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.program_end import reason_at_exit
from gpumemprof.recorder.run_settings import Settings, own_words, rank_suffix, recorded_command
from gpumemprof.recorder.simulation import Simulation
from gpumemprof.recorder.summary import ChildReport
from gpumemprof.torch_calls import readiness

if TYPE_CHECKING:
    from gpumemprof.holders.leaks_of_run import LeaksOfRun

__all__ = ["begin", "finish_family", "join", "join_by_itself", "leave", "say_unrecorded"]

_USAGE_CODE = 2
_BUG_CODE = 70
# A program that starts new workers in every epoch would fill a folder.
_MOST_CHILDREN = 256

_settings: Settings | None = None
_ends: Callable[[str], None] | None = None
_process = 0  # the process whose end it is
_is_forked = False
_is_guarded = False
_has_spoken = False


def begin() -> None:
    """Call in the process that runs the program, before its first line."""
    global _settings
    settings = Settings.read()
    if settings is None:
        return
    _settings = settings
    if settings.registry:
        registry.seal(settings.registry)
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
    Settings.remove_from(os.environ)
    if settings.children:
        environment = dict(os.environ)
        settings.add_to(environment, 0)
        os.environ.update(environment)
    file = run_closing.OutputFile(settings.output)
    if estimation is None:
        farewell = b"" if settings.quiet else run_closing.farewell(recording)
        _core.capture_watch_signals(farewell)
    leaks = _watch_leaks(recording, settings, settings.leaks_signal)
    _set_end(functools.partial(_end_program, recording, file, settings, leaks))
    _guard()


def join() -> None:
    """Call in a process that a recorded one started: records it from torch's import on."""
    global _settings
    _settings = Settings.read()
    if _settings is not None:
        places.name_after_script(_settings)
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
    second_name: str = "",
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
        second_name=second_name,
        # To search is to touch all that the parent made, and so to copy most of its memory.
        is_brief=_is_forked,
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
    global _ends, _is_forked
    _ends, _is_forked = None, True
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
    # Nothing of this reaches the program: no exception, and a line of output only where no `run`
    # prints it at its end.
    with contextlib.suppress(Exception):
        try:
            _record_child(settings)
        except Exception as problem:
            say_unrecorded(settings, problem)


def _record_child(settings: Settings) -> None:
    pid = os.getpid()
    if not settings.is_automatic and len(_children(settings)) >= _MOST_CHILDREN:
        registry.add(settings.registry, {"pid": pid, "path": None})
        return
    path, second_name = _names(settings)
    if settings.is_automatic:
        places.check(path)
    command = recorded_command(own_words(), settings.arguments)
    recording = _start(
        settings, path, command, overwrite=False, waits=True, second_name=second_name
    )
    registry.add(settings.registry, {"pid": pid, "path": path})
    is_first = settings.is_automatic and registry.is_mine(settings.registry)
    _core.capture_watch_signals(run_closing.farewell(recording) if is_first else b"")
    leaks = _watch_leaks(recording, settings, settings.leaks_signal if is_first else "")
    _set_end(functools.partial(_end_child, recording, settings, leaks))
    atexit.register(_end_at_exit)  # before the one that closes open recordings


def _names(settings: Settings) -> tuple[str, str]:
    """The name of this process's recording, and the one that it has if another takes that first."""
    stem = f"{settings.children_base}{rank_suffix()}.{os.getpid()}"
    own, number = f"{stem}.gmp", 1
    while os.path.lexists(own):
        number += 1
        own = f"{stem}.{number}.gmp"
    is_named = settings.named_process == os.getpid() and settings.output != ""
    if is_named and not os.path.lexists(settings.output):
        return settings.output, own
    return own, ""


def say_unrecorded(settings: Settings, problem: Exception) -> None:
    """This process cannot be recorded: one process says why, for all that have the same problem."""
    sentence = str(problem)
    if not isinstance(problem, (Error, OSError)):
        sentence = f"internal error: {problem!r}, so nothing is recorded; please report it"
    if not settings.is_automatic:
        row: ChildReport = {"pid": os.getpid(), "path": None, "problem": sentence}
        registry.add(settings.registry, row)
    elif registry.is_first_to_say(settings.registry, sentence):
        run_closing.print_message(sentence)


def _children(settings: Settings) -> dict[int, ChildReport]:
    """What the other processes reported last, by their numbers."""
    rows = [row for row in registry.read(settings.registry) if "pid" in row]
    return {row["pid"]: row for row in rows if row["pid"] != os.getpid()}


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
    if leaks is not None:
        leaks.finish()
    _stop(recording, how)
    if not recording.summary:
        return
    row: ChildReport = {
        "pid": os.getpid(),
        "path": recording.path,
        "events": recording.summary["events"],
        "recorded": run_closing.what_is_recorded(recording.summary),
        "size_bytes": recording.summary["size_bytes"],
        "peaks": run_closing.peaks(recording),
        "notes": recording.notes,
        "is_rank": recording.rank_of_many is not None,
        "problem": recording.summary["problem"],
    }
    is_told = not registry.is_mine(settings.registry) and registry.add(settings.registry, row)
    if settings.is_automatic and not is_told:
        _speak(recording, settings)
        if leaks is not None:
            leaks.print_found()
    _summarise(recording)


def _speak(recording: ActiveRecording | None, settings: Settings) -> None:
    """For all processes, at the end of the first; or for one whose first process has ended."""
    global _has_spoken
    _has_spoken = True
    children = _children(settings) if registry.is_mine(settings.registry) else {}
    file = None
    if recording is not None:
        file = run_closing.OutputFile(run_closing.shown_path(recording.path))
    run_closing.print_closing(recording, file, children, is_asked=False)


def finish_family(place: str) -> None:
    """With GPUMEMPROF=1, at the end of the first process, which may have recorded nothing."""
    if not _has_spoken:
        _speak(None, Settings(registry=place))


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
    if not settings.quiet:
        run_closing.print_closing(recording, file, _children(settings))
        if leaks is not None:
            leaks.print_found()
        _summarise(recording)


def _summarise(recording: ActiveRecording) -> None:
    """Last of all: the program may be ended while it waits for this."""
    if recording.is_rank and recording.summary.get("events", 0) > 0:
        rank_summary.write_beside(recording.path)
