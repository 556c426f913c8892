"""Whether the program fits the card, in one sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.command.bands import Bands, bands
from gpumemprof.estimate.command.prediction import Prediction
from gpumemprof.estimate.command.units import size

__all__ = ["Answer", "Room", "Verdict", "judge"]


class Answer(enum.Enum):
    """The values are those of ``--json``."""

    FITS = "fits"
    MAY_NOT_FIT = "may not fit"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True)
class Room:
    """What the program is to fit into."""

    title: str
    """``an H100 80 GB``, or ``24.0 GiB``."""
    free_bytes: int
    library_bytes: int
    """What kernels and libraries may take from it."""
    is_card: bool

    @classmethod
    def of_card(cls, card: Card) -> Room:
        """An otherwise unused card."""
        title = f"{card.article} {card.title}"
        return cls(title, card.free_bytes, card.library_bytes, is_card=True)

    @classmethod
    def of_size(cls, limit_bytes: int) -> Room:
        """A limit on PyTorch's pool, as for ``advise --fit``."""
        return cls(size(limit_bytes), limit_bytes, 0, is_card=False)


@dataclass(frozen=True)
class Verdict:
    """The answer for one prediction and one card."""

    answer: Answer
    room: Room
    prediction: Prediction
    bands: Bands
    needed_bytes: int | None
    """The smallest pool in which the whole run succeeds; None if unknown."""
    line: str = ""
    """Where memory runs out; empty if it does not, or the line is unknown."""

    @property
    def short_bytes(self) -> int | None:
        """How much is missing, at least; None if it fits."""
        if self.answer is not Answer.DOES_NOT_FIT:
            return None
        if self.needed_bytes is not None:
            return max(1, self.needed_bytes - self.room.free_bytes)
        oom = self.prediction.out_of_memory
        return None if oom is None else oom.short_bytes

    @property
    def is_tight(self) -> bool:
        """Whether it fits only because the pool gives cached memory back."""
        retries = self.prediction.retries or 0
        return self.answer is not Answer.DOES_NOT_FIT and (
            retries > 0 or self.prediction.reserved_bytes > self.room.free_bytes
        )

    @property
    def network_bytes(self) -> int:
        """What NCCL may take outside the pool."""
        return network_bytes(self.prediction, self.room)

    @property
    def sentence(self) -> str:
        """``fits an H100 80 GB: peak 61.3 GiB of 79.2 GiB free …``."""
        if self.answer is Answer.DOES_NOT_FIT:
            return self._does_not_fit()
        free = self.room.free_bytes
        peak = min(self.prediction.reserved_bytes, free)
        after = " free after the context" if self.room.is_card else ""
        text = f"{self.answer.value} {self.room.title}: peak {size(peak)} of {size(free)}{after}"
        if self.answer is Answer.MAY_NOT_FIT:
            return f"{text}; {self._doubt()}"
        if self.is_tight:
            return f"{text}, but only by giving cached memory back, which slows it down"
        return f"{text}; {size(free - peak)} to spare"

    def about(self, name: str) -> str:
        """The sentence with its subject; what was not predicted is not said to fit."""
        if self.answer is not Answer.FITS or self.prediction.ended != "steps":
            return f"{name} {self.sentence}"
        rest = self.sentence.removeprefix(Answer.FITS.value)
        # The next line says how many: the last one may have been cut off before its optimizer.
        return f"The first steps of {name} fit{rest}"

    def _does_not_fit(self) -> str:
        where = f"at {self.line}, " if self.line else ""
        short = self.short_bytes
        least = "" if self.needed_bytes is not None else "at least "
        missing = "out of memory" if short is None else f"short by {least}{size(short)}"
        return f"{self.answer.value} {self.room.title}: {where}{missing}"

    def _doubt(self) -> str:
        if self.prediction.is_cut_short:
            when = "its second step" if self.prediction.steps else "any optimizer step"
            return f"it was stopped before {when}, so that a later peak is unknown"
        if self.prediction.grows_at_end:
            return "it was stopped while its memory still grew, so that a later peak is unknown"
        doubt = self.bands.more_bytes(self.prediction)
        if not self.room.library_bytes:
            return f"it may take up to {size(doubt)} more than predicted"
        network = f", NCCL {size(self.network_bytes)}" if self.network_bytes else ""
        return (
            f"it may take up to {size(doubt)} more than predicted, and kernels and libraries "
            f"{size(self.room.library_bytes)}{network} outside the pool"
        )

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "answer": self.answer.value,
            "sentence": self.sentence,
            "room": self.room.title,
            "free_bytes": self.room.free_bytes,
            "peak_allocated_bytes": self.prediction.allocated_bytes,
            "peak_reserved_bytes": self.prediction.reserved_bytes,
            "needed_bytes": self.needed_bytes,
            "short_bytes": self.short_bytes,
            "line": self.line or None,
            "is_tight": self.is_tight,
        }


# Not measured by us: public reports are of 0.2 to 1 GiB for a program's first communicator, and of
# less for each further one.
_FIRST_COMMUNICATOR_BYTES = 1 << 30
_COMMUNICATOR_BYTES = 256 << 20


def network_bytes(prediction: Prediction, room: Room) -> int:
    """What NCCL may take for its buffers, outside PyTorch's pool."""
    if prediction.communicators == 0 or not room.is_card:
        return 0
    return _FIRST_COMMUNICATOR_BYTES + (prediction.communicators - 1) * _COMMUNICATOR_BYTES


def judge(prediction: Prediction, room: Room, whole: Prediction | None = None) -> Verdict:
    """The verdict on a predicted run.

    Args:
        prediction: predicted with the room's limit, or with a higher one that it did not reach.
        room: what it is to fit into.
        whole: if that run ran out of memory, the run on a card that is large enough.

    It fits only if the upper end of the band does, with what libraries may take beside the pool.
    """
    expected = bands(prediction)
    free = room.free_bytes
    if prediction.has_failed:
        needed = None if whole is None else whole.needed_bytes
        oom = prediction.out_of_memory
        line = oom.where if oom is not None else ""
        return Verdict(Answer.DOES_NOT_FIT, room, prediction, expected, needed, line)
    # The pool gives cached memory back when it is full, so its own peak is not what is needed.
    needed = prediction.needed_bytes
    least = prediction.reserved_bytes if needed is None else needed
    if least > free:
        line = prediction.lines_at_limits.get(free, "")
        return Verdict(Answer.DOES_NOT_FIT, room, prediction, expected, least, line)
    outside = room.library_bytes + network_bytes(prediction, room)
    fits = least + expected.more_bytes(prediction) + outside <= free
    is_peak_known = not prediction.is_cut_short and not prediction.grows_at_end
    answer = Answer.FITS if fits and is_peak_known else Answer.MAY_NOT_FIT
    return Verdict(answer, room, prediction, expected, needed)
