"""ActiveRecording: one recording of this process, from its file's first byte to its last."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Callable, Union

from gpumemprof import _core, hooks
from gpumemprof.errors import Error, RecordingWarning, UsageError
from gpumemprof.failure import spot
from gpumemprof.read.recording import load
from gpumemprof.recorder import kept, open_recordings
from gpumemprof.recorder.program_end import EXCEPTION, failure_facts, main_package
from gpumemprof.recorder.rank_facts import rank_facts
from gpumemprof.recorder.run_settings import own_words, recorded_command
from gpumemprof.recorder.self_test import SelfTest
from gpumemprof.recorder.simulation import Simulation
from gpumemprof.recorder.stacks import (
    probe_apart,
    why_no_forward_stacks,
    why_no_modules,
    why_no_native_stacks,
    why_no_stacks,
)
from gpumemprof.recorder.summary import RecordingSummary
from gpumemprof.torch_calls import allocator, cards, ranks, readiness

__all__ = ["ActiveRecording"]

_Path = Union[str, "os.PathLike[str]"]

_MOST_ATTEMPTS = 3
_MODES = ("native", "recorder", "counters")


def _forced_mode() -> str:
    """The capture mode set in the environment, to try what an unknown torch would get."""
    mode = os.environ.get("GPUMEMPROF_CAPTURE", "native")
    if mode not in _MODES:
        raise UsageError(f"GPUMEMPROF_CAPTURE is {mode}, not one of {', '.join(_MODES)}", "usage")
    return mode


def _facts(command: str | None) -> dict[str, str]:
    return {
        "gpumemprof": _core.__version__,
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "pid": str(os.getpid()),
        "command": recorded_command(own_words(), False) if command is None else command,
        **rank_facts(),
    }


class ActiveRecording:
    """One recording and its file, made by `start` or `record`.

    ::

        recording = gpumemprof.start("run.gmp")
        ...
        recording.stop()
        print(recording.summary["events"], recording.notes)
    """

    def __init__(
        self,
        path: _Path,
        stacks: bool,
        cpu: bool | None,
        overwrite: bool,
        labels: bool = True,
        is_brief: bool = False,
        command: str | None = None,
        waits: bool = False,
        simulation: Simulation | None = None,
        keep: kept.Size | None = None,
        native_stacks: bool = False,
        second_name: str = "",
    ) -> None:
        """Use `start` or `record` instead."""
        self._path = os.fspath(path)
        self.summary: RecordingSummary = {}
        """What was recorded; filled by `stop`."""
        self.capture: str | None = None
        """How events are captured: ``native``, ``recorder``, ``counters`` or, without a GPU,
        ``simulated``; None until memory is used."""
        self.self_test: str | None = None
        """Whether the events were seen to add up to torch's own list of blocks: ``passed``,
        ``not done`` or ``failed: …``; None before the program's first allocation."""
        self.notes: list[str] = []
        """What could not be recorded as asked, a sentence each."""
        self._simulation = simulation
        self._keep_bytes = kept.kept_bytes(keep)
        is_cpu = not readiness.has_cuda() if cpu is None else cpu
        self._is_cpu = simulation is None and is_cpu
        self._has_stacks = stacks
        self._owns_recorder = False
        self._tester: SelfTest | None = None
        self._retries: dict[int, int] = {}
        self._facts = _facts(command)
        self._has_labels = labels
        self._is_brief = is_brief
        self._is_watching = False
        self._when_rank: list[Callable[[], None]] = []
        # For processes recorded on behalf of another: no file without events, no messages. If its
        # name was taken by then, the file has the second one.
        self._is_silent = self._may_be_renamed = waits
        self._second_name = second_name
        with open_recordings.lock:
            open_recordings.prepare()
            if "IPython" in sys.modules:
                from gpumemprof.integrations.notebook.cells import name_cells

                name_cells()
            problem = why_no_stacks()
            if stacks and problem is not None:
                self.notes.append(f"stacks are not recorded: {problem}")
            has_stacks = stacks and problem is None
            if has_stacks and self._is_cpu:
                probe_apart()
            native_problem = why_no_native_stacks() if native_stacks and has_stacks else None
            if native_problem is not None:
                self.notes.append(f"native stacks are not recorded: {native_problem}")
            has_native = has_stacks and native_stacks and native_problem is None
            self._number = self._open(overwrite, has_stacks, waits, has_native)
            open_recordings.active.append(self)
        readiness.when_imported(self._attach)

    def _forget(self) -> None:
        """In a forked child: the file belongs to the parent."""
        self._number = None

    def _open(self, overwrite: bool, stacks: bool, waits: bool, native_stacks: bool) -> int | None:
        path = os.fsencode(self._path)
        try:
            predicts = self._simulation is not None
            return _core.capture_start(
                path,
                self._is_cpu,
                overwrite,
                stacks,
                waits,
                self._facts,
                predicts,
                self._keep_bytes,
                kept.chapter_events(),
                native_stacks,
                os.fsencode(self._second_name),
            )
        except UsageError as error:
            # The core's hint names the command-line flag.
            hint = error.hint.replace("-f ", "overwrite=True ")
            raise UsageError(error.message, error.code, error.where, hint) from None

    @property
    def path(self) -> str:
        """Where it is written.

        >>> recording.path  # doctest: +SKIP
        'run.gmp'
        """
        number = self._number
        if self._may_be_renamed and number is not None:
            self._path = os.fsdecode(_core.capture_path(number)) or self._path
        return self._path

    @property
    def is_rank(self) -> bool:
        """Whether it is one of the processes of a job.

        >>> recording.is_rank  # doctest: +SKIP
        False
        """
        return "rank" in self._facts and "world_size" in self._facts

    @property
    def rank_of_many(self) -> int | None:
        """Its number among several processes of a job; None if it is alone, or not one of them.

        >>> recording.rank_of_many  # doctest: +SKIP
        3
        """
        is_one_of_many = self.is_rank and self._facts["world_size"] != "1"
        return int(self._facts["rank"]) if is_one_of_many else None

    def when_rank(self, action: Callable[[], None]) -> None:
        """Call `action` as soon as this process is known to be a rank; perhaps never.

        >>> recording.when_rank(lambda: print("one of many"))  # doctest: +SKIP
        """
        if self.is_rank:
            action()
        else:
            self._when_rank.append(action)

    def start_later(self, words: list[bytes], seconds: float) -> None:
        """Start a program beside this one after that time, if the recording is still open then."""
        number = self._number
        if number is not None:
            _core.capture_start_later(number, words, seconds)

    def _on_rank_facts(self, facts: dict[str, str]) -> None:
        """While the program runs: a process that is killed says nothing at its end."""
        if "helper_of_rank" in self._facts or self._number is None:
            return
        said = {"rank", "world_size"} & self._facts.keys()  # What the launcher said counts.
        new = {
            key: value
            for key, value in facts.items()
            if key not in said and self._facts.get(key) != value
        }
        # A larger mesh replaces a smaller one; facts cannot be taken back, but emptied.
        mesh = [key for key, value in self._facts.items() if key.startswith("mesh") and value]
        new.update({key: "" for key in mesh if key not in facts})
        if new:
            self._add_facts(new)
        if self._when_rank and self.is_rank:
            actions, self._when_rank = self._when_rank, []
            for action in actions:
                action()

    @property
    def memory(self) -> str:
        """Which memory is recorded: ``cuda`` or ``cpu``.

        >>> recording.memory  # doctest: +SKIP
        'cuda'
        """
        return "cpu" if self._is_cpu else "cuda"

    def stop(self, reason: str = "stop") -> None:
        """End the recording; everything up to now is in the file. Calling it again does nothing.

        >>> recording.stop()  # doctest: +SKIP
        """
        if self._simulation is not None and self._number is not None:
            self._simulation.closing()
        if self.capture == "counters":
            self._add_facts(allocator.counter_facts())
        elif self.capture not in (None, "simulated") and not self._is_cpu:
            with contextlib.suppress(Exception):
                self._add_facts(cards.limit_facts())
        self._add_retries()
        ranks.forget_listener(self._on_rank_facts)
        if self.capture is not None:
            if "helper_of_rank" not in self._facts:
                self._on_rank_facts({**ranks.process_group_facts(), **ranks.mesh_facts()})
            # It is known already, unless the program has an excepthook of its own.
            if reason.startswith(EXCEPTION) and "failure_type" not in self._facts:
                self._add_facts(failure_facts())
        with open_recordings.lock:
            number, self._number = self._number, None
            if number is None:
                return
            open_recordings.active.remove(self)
            if self in open_recordings.started:
                open_recordings.started.remove(self)
        if self._is_watching:
            facts = hooks.leave(searches=not self._is_brief)
            self._facts.update(facts)
            _core.capture_add_facts(number, facts)
        if self._simulation is not None:
            # After the hooks, which ask torch for addresses.
            _core.capture_add_facts(number, self._simulation.end())
        self.summary = _core.capture_stop(number, reason)
        if self._may_be_renamed:
            self._path = self.summary["path"] or self._path
        if self._tester is not None:
            self._tester.join()
        if self.capture == "recorder":
            self._take_recorder()
        problem = str(self.summary.get("problem", ""))
        lost = self.summary.get("lost_events", 0)
        if problem:
            self.notes.append(problem)
        if lost and not problem:
            self.notes.append(f"{lost:,} events were lost: the recorder could not keep up")
        if self._is_silent:
            return
        for note in self.notes:
            warnings.warn(note, RecordingWarning, stacklevel=2)

    def _attach(self) -> None:
        """torch is imported; errors from it are ours, never the program's."""
        try:
            number = self._number
            if number is None:
                return
            self._add_facts(readiness.torch_versions())
            if package := main_package():
                self._add_facts({"main_package": package})
            if self._has_stacks:
                problem = why_no_forward_stacks()
                state = "on" if problem is None else f"off: {problem}"
                self._add_facts({"forward_stacks": state})
                problem = why_no_modules()
                state = "by instance" if problem is None else f"by line: {problem}"
                self._add_facts({"modules": state})
            if self._has_labels:
                self._is_watching = True
                hooks.watch()
            if self._simulation is None:
                spot.watch()
            ranks.watch_ranks(self._on_rank_facts)
            if self._is_cpu:
                _core.capture_attach_cpu()
                self._set_capture("native")
            elif self._simulation is not None:
                # Last: from here on tensors have no memory, and the probes above need some.
                self._join_simulation(number, self._simulation)
            else:
                readiness.when_cuda_is_ready(self._join)
        except Exception as error:
            if self._simulation is not None:
                # Without it there is nothing to record, and the program cannot run.
                self._is_silent = True
                self.stop("not started")
                raise
            self.notes.append(f"nothing is recorded: {error}")

    def _join(self) -> None:
        """CUDA is initialised."""
        number = self._number
        if number is None:
            return
        try:
            self._add_facts(cards.device_facts())
            for device, card in cards.card_ids().items():
                _core.capture_watch_card(device, card)
            mode = _forced_mode()
            if mode != "native":
                raise UsageError(f"GPUMEMPROF_CAPTURE is {mode}", "usage")
            self._join_native(number)
            self._retries = allocator.retry_counts()
            self._set_capture("native")
            self._tester = SelfTest(number, lambda: self._number is not None, self._on_self_test)
            self._tester.start()
        except Exception as error:
            self._fall_back(error)

    def _on_self_test(self, result: str, contradiction: str) -> None:
        self._add_facts({"self_test": result})
        if contradiction:
            self._fall_back(UsageError(contradiction, "usage"))
        self.self_test = result

    def _add_facts(self, facts: dict[str, str]) -> None:
        self._facts.update(facts)
        number = self._number
        if number is not None:
            _core.capture_add_facts(number, facts)

    def _add_retries(self) -> None:
        """From torch's own count: events cannot distinguish a retry from empty_cache()."""
        if self._number is None or self.capture != "native" or not self._retries:
            return
        with contextlib.suppress(Exception):  # Missing counters must not make stop() fail.
            now = allocator.retry_counts()
            self._add_facts(
                {
                    f"device {device} num_alloc_retries": str(max(0, now[device] - before))
                    for device, before in self._retries.items()
                    if device in now
                }
            )

    def _fall_back(self, reason: Exception) -> None:
        """Use torch's own recorder, or only the card's counters."""
        try:
            if allocator.backend() != "native" or _forced_mode() == "counters":
                raise UsageError(str(reason), "usage")
            self._owns_recorder = allocator.start_recorder(self._has_stacks)
            self.notes.append(
                f"torch's own recorder is used, which keeps its events in memory: {reason}"
            )
            self._set_capture("recorder")
        except Exception as error:
            self.notes.append(f"allocator events are not recorded: {error}")
            self._set_capture("counters")

    def _take_recorder(self) -> None:
        """Copy what torch's own recorder saw into the file."""
        try:
            # It begins when it was started: there is nothing to divide into chapters.
            path = Path(self.path)
            if self._keep_bytes:
                kept.remove_chapters(path, leaves_folder=True)
                path /= kept.FIRST_CHAPTER
            with tempfile.TemporaryDirectory() as folder:
                snapshot = str(Path(folder) / "snapshot.pickle")
                allocator.dump_recorder(snapshot, self._owns_recorder)
                _core.capture_replace_with_snapshot(
                    os.fsencode(snapshot), os.fsencode(path), self._facts
                )
            self.summary["size_bytes"] = path.stat().st_size
            self.summary["events"] = load(self.path).report(top=0)["input"]["events"]
        except Exception as error:
            self.notes.append(f"what torch's own recorder kept is lost: {error}")

    def _join_native(self, number: int) -> None:
        if allocator.backend() != "native":
            raise UsageError(
                f"torch uses the {allocator.backend()} allocator, which reports no events", "usage"
            )
        _core.capture_attach_cuda(*readiness.version())
        for attempt in range(_MOST_ATTEMPTS):
            _core.capture_begin_join(number)
            devices, segments = allocator.list_state()
            try:
                _core.capture_finish_join(number, devices, segments)
                break
            except Error:
                # Another thread may have taken a snapshot at the same moment.
                if attempt + 1 == _MOST_ATTEMPTS:
                    raise
        self._set_settings(number, allocator.allocator_settings())

    def _join_simulation(self, number: int, simulation: Simulation) -> None:
        _core.capture_hide_files(simulation.hidden_files)
        _core.capture_join_simulated(number, simulation.device)
        self._set_settings(number, simulation.settings())
        self._set_capture("simulated")
        self._add_facts(simulation.begin())

    def _set_settings(self, number: int, settings: str) -> None:
        if not _core.capture_set_settings(number, settings, *readiness.version()):
            self.notes.append(f"the allocator settings could not be parsed: {settings}")
        self._add_facts({"settings": settings})

    def _set_capture(self, capture: str) -> None:
        self.capture = capture
        self._add_facts({"capture": capture})
