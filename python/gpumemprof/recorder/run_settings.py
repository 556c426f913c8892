"""The settings of ``gpumemprof run``, as passed to the processes they apply to.

They are passed in the environment, so that they reach every process the program starts: PYTHONPATH
leads Python to ``startup/sitecustomize.py``, and the variable GPUMEMPROF_RUN says what to do. It
starts with the id of the process to be recorded as the program itself, or 0, and the kind of
Python, so that starting a process that is not to be recorded costs nothing.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpumemprof.recorder import registry
from gpumemprof.recorder.rank_facts import launcher_facts

__all__ = ["VARIABLE", "Settings", "own_words", "rank_suffix", "recorded_command"]

VARIABLE = "GPUMEMPROF_RUN"
_PRIVATE = ("alert_webhook", "alert_command")
_STARTUP = str(Path(__file__).resolve().parent / "startup")


@dataclass
class Settings:
    """All settings; a child inherits its parent's."""

    output: str = ""
    """Where the program's own recording goes, as messages name it."""
    children_base: str = ""
    """What the names of the children's files begin with, with the whole path."""
    is_output_given: bool = False
    """Whether the user named a file, which then names the children's too."""
    registry: str = ""
    """Where processes report what they recorded; see `gpumemprof.recorder.registry`."""
    command: str = ""
    """The program, as its recording names it."""
    force: bool = False
    stacks: bool = True
    native_stacks: bool = False
    labels: bool = True
    cpu: bool | None = None
    children: bool = True
    arguments: bool = False
    alerts: list[str] = field(default_factory=list)
    alert_webhook: str | None = None
    alert_command: str | None = None
    quiet: bool = False
    is_automatic: bool = False
    """Whether this is GPUMEMPROF=1, and no `run` prints where recordings are."""
    named_process: int = 0
    """The process that records to `output`, with GPUMEMPROF=1."""
    metrics: tuple[str, int] | None = None
    """The host and port where figures are published."""
    keep: int | None = None
    """How many bytes of each recording are kept; all if not given."""
    leaks: bool = False
    """Whether to find who holds the memory that grows."""
    leaks_signal: str = ""
    """The signal that prints it while the program runs, as ``SIGUSR2``; empty for none."""
    applied: str | None = None
    """A request to change the program; see `gpumemprof.verify.apply`."""
    estimate: str | None = None
    """A request to predict the program; see `gpumemprof.estimate.process.request`."""
    prefix: str = sys.prefix

    def text(self, process: int) -> str:
        """The value of the variable; `process` is recorded as the program itself."""
        shown = {name: value for name, value in asdict(self).items() if name not in _PRIVATE}
        return f"{process} {sys.implementation.cache_tag} {json.dumps(shown)}"

    def private(self) -> str:
        """What is passed on in the registry, because every process can read the environment."""
        values = {name: getattr(self, name) for name in _PRIVATE}
        return json.dumps({name: value for name, value in values.items() if value is not None})

    def add_to(self, environment: dict[str, str], process: int) -> None:
        """Have the next Python that starts with this environment recorded."""
        environment[VARIABLE] = self.text(process)
        entries = _other_entries(environment)
        environment["PYTHONPATH"] = os.pathsep.join([_STARTUP, *entries])

    @staticmethod
    def remove_from(environment: os._Environ[str] | dict[str, str]) -> None:
        """Restore the environment."""
        environment.pop(VARIABLE, None)
        if "PYTHONPATH" not in environment:
            return
        entries = _other_entries(environment)
        if entries:
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        else:
            del environment["PYTHONPATH"]

    @staticmethod
    def read() -> Settings | None:
        """The settings for this process; None if there are none, or they are for another Python."""
        words = os.environ.get(VARIABLE, "").split(" ", 2)
        try:
            settings = Settings(**json.loads(words[2]))
            for name, value in next(iter(registry.read(settings.registry)), {}).items():
                setattr(settings, name, value)
        except (IndexError, TypeError, ValueError):
            return None
        return settings if settings.prefix == sys.prefix else None


def _other_entries(environment: os._Environ[str] | dict[str, str]) -> list[str]:
    path = environment.get("PYTHONPATH", "")
    return [entry for entry in path.split(os.pathsep) if entry != _STARTUP] if path else []


def rank_suffix() -> str:
    """The host and rank if there are several processes, else empty."""
    facts = launcher_facts(os.environ)
    if facts.get("world_size", "1") == "1":
        return ""
    return f".{socket.gethostname()}.rank{facts['rank']}"


def own_words(cmdline: bytes | None = None) -> list[str]:
    """This process's program and its arguments; of a worker of Ray, the task that it runs.

    >>> own_words(b"ray::Trainer.fit\\0\\0")
    ['ray::Trainer.fit']
    """
    if cmdline is None:
        try:
            cmdline = Path("/proc/self/cmdline").read_bytes()
        except OSError:
            cmdline = b""
    # Ray says it there; the arguments are its own, twenty of them.
    title = os.fsdecode(cmdline.partition(b"\0")[0]).strip()
    return [title] if title.startswith("ray::") else sys.argv


def recorded_command(words: list[str], with_values: bool) -> str:
    """The program and the names of its flags; their values may be secret.

    >>> recorded_command(["train.py", "--token", "abc", "--lr=1e-3", "-pabc", "-1"], False)
    'train.py --token --lr -p'
    """
    if with_values:
        return " ".join(words)
    names = words[:1]
    for word in words[1:]:
        if word.startswith("--"):
            names.append(word.partition("=")[0])
        elif word.startswith("-") and word[1:2].isalpha():
            names.append(word[:2])
    return " ".join(name for name in names if name != "--")
