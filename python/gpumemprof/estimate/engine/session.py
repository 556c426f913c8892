"""Begins and ends an estimate: from then on the process has a simulated card.

`begin` is called once in the program's process, when torch has been imported. The program's main
thread and the threads it starts run on fake tensors until `end`, or for the rest of the process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from gpumemprof import _core
from gpumemprof.errors import Error
from gpumemprof.estimate import patches
from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.engine import self_check
from gpumemprof.estimate.engine.assumptions import Assumptions
from gpumemprof.estimate.engine.device import Device, Memory, torch_release
from gpumemprof.estimate.engine.dispatch import EstimateMode
from gpumemprof.estimate.engine.facts import Facts, OperationFacts
from gpumemprof.estimate.engine.failures import refusals
from gpumemprof.estimate.engine.fake_mode import FakeMode, Modes
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.engine.uncaught import UncaughtExceptions
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.world import World

__all__ = [
    "Session",
    "Settings",
    "active",
    "begin",
    "end",
    "end_at_next_operation",
    "estimating",
]

_FIRST_RELEASE = (2, 6)
_LAST_RELEASE = (2, 13)


@dataclass
class Settings:
    """How a program is estimated."""

    # The user's answers for values that are not known, by "file:line".
    assumed_values: dict[str, float] = field(default_factory=dict)
    # As in PYTORCH_CUDA_ALLOC_CONF; None reads the variable.
    allocator: str | None = None
    limit_bytes: int | None = None
    prints_sentences: bool = True  # why the program could not be predicted
    # The rank that this process is; None: the program is a single process.
    world: World | None = None
    # Files that the program writes are not the user's.
    has_scratch: bool = False


class Session:
    """One estimate: the device, the modes, and everything that is patched."""

    def __init__(self, card: Card, settings: Settings, memory: Memory | None = None) -> None:
        self._check_release()
        self.assumptions = Assumptions()
        self.world = settings.world
        self._has_scratch = settings.has_scratch
        index, count = (0, 1)
        if self.world is not None:
            index, count = self.world.local_rank, self.world.per_node
        simulated = memory or _simulated(card, settings, index)
        self.device = Device(card, simulated, self.assumptions, index=index, count=count)
        self.answers = Answers(self.assumptions, settings.assumed_values)
        _load_rules()
        self.fake_mode = FakeMode()
        self.mode = EstimateMode(self.device, self.answers, self.fake_mode)
        self._uncaught = UncaughtExceptions(settings.prints_sentences)
        self._refusals_before = len(refusals)
        self._patcher = Patcher()
        self._entered: Modes | None = None

    def modes(self) -> Modes:
        return Modes(self.fake_mode, self.mode)

    def start(self) -> None:
        """Patch torch, check that it works, and estimate what this thread does."""
        try:
            patches.install_all(
                self._patcher,
                self.device,
                self.answers,
                self.modes,
                self.mode.collectives,
                self.world,
                self._has_scratch,
            )
            self_check.check(self.device, self.modes, self.mode.gradient_sums.learn)
        except BaseException:
            self._patcher.undo()
            raise
        self.mode.reset_counts()
        os.register_at_fork(after_in_child=self.device.close)
        self._uncaught.install(self._patcher)
        self.device.pace.begin()
        self._entered = self.modes()
        self._entered.__enter__()

    def stop(self) -> Facts:
        """What was found. The process is as it was before."""
        if self._entered is not None:
            self._entered.__exit__()
            self._entered = None
        self.device.pace.end()
        facts = self.facts()
        self.device.close()
        self._patcher.undo()
        return facts

    @property
    def failure(self) -> str:
        """Why the program could not be predicted, in one sentence; empty if it could."""
        return self._uncaught.sentence

    def facts(self) -> Facts:
        for sentence, line in refusals[self._refusals_before :]:
            if sentence != self.failure:
                text = f"the program went on where it could not be predicted: {sentence}"
                self.assumptions.add("execution", text, line)
        self._refusals_before = len(refusals)
        memory = self.device.memory
        return Facts(
            card=self.device.card,
            torch_version=torch.__version__,
            peak_allocated_bytes=memory.most_allocated_bytes,
            peak_reserved_bytes=memory.most_reserved_bytes,
            operations=_counted(self.mode.operations),
            assumptions=list(self.assumptions),
            out_of_memory=self.device.first_out_of_memory,
            bytes_by_certainty=self.device.doubt.bytes_by_certainty(),
            reserved_range=memory.most_reserved_range,
            communicators=len(self.mode.collectives.communicators),
            failure=self.failure,
        )

    @staticmethod
    def _check_release() -> None:
        if not _FIRST_RELEASE <= torch_release() <= _LAST_RELEASE:
            raise Error(
                f"estimate does not work with torch {torch.__version__}",
                "environment",
                hint="use a release from 2.6 to 2.13",
            )


def _counted(operations: list[Operation]) -> list[OperationFacts]:
    """By name: overloads of one operation share their rules."""
    found: dict[str, OperationFacts] = {}
    for op in operations:
        certainty = op.rule.certainty if op.rule is not None else None
        facts = found.setdefault(op.name, OperationFacts(op.name, 0, certainty))
        facts.calls += op.calls
    return sorted(found.values(), key=lambda each: each.name)


def _simulated(card: Card, settings: Settings, index: int) -> Memory:
    conf = settings.allocator
    if conf is None:
        conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF", "")
    limit = settings.limit_bytes or card.total_bytes - card.context_bytes
    return _core.SimulatedDevice(index, card.total_bytes, limit, conf, torch_release())


def _load_rules() -> None:
    """Each file of the rules registers its own when it is imported."""
    import importlib
    import pkgutil

    from gpumemprof.estimate import rules

    for module in pkgutil.walk_packages(rules.__path__, rules.__name__ + "."):
        importlib.import_module(module.name)


_session: Session | None = None


def active() -> Session | None:
    return _session


def end_at_next_operation(error: type[BaseException] | None) -> None:
    """Have the main thread raise this where nothing is half done: at its next operation."""
    if _session is not None:
        _session.mode.ending = error


def begin(card: Card, settings: Settings | None = None, memory: Memory | None = None) -> Session:
    """Estimate this process from now on."""
    global _session
    if _session is not None:
        raise Error("an estimate is running already", "usage", hint="end it first")
    session = Session(card, settings or Settings(), memory)
    session.start()
    _session = session
    return session


def end() -> Facts:
    """End the estimate and return what it found."""
    global _session
    if _session is None:
        raise Error("no estimate is running", "usage", hint="begin one first")
    session, _session = _session, None
    return session.stop()


@contextlib.contextmanager
def estimating(
    card: Card, settings: Settings | None = None, memory: Memory | None = None
) -> Iterator[Session]:
    """Estimate what is done within, as in a notebook."""
    session = begin(card, settings, memory)
    try:
        yield session
    finally:
        if _session is session:
            end()
