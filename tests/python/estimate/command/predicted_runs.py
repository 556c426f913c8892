"""Predicted recordings without a prediction: recorded snapshots with the facts of one."""

from __future__ import annotations

import gzip
from pathlib import Path

import gpumemprof
from gpumemprof import _core
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.command.prediction import Prediction
from gpumemprof.estimate.command.program import Run
from gpumemprof.estimate.process import facts
from gpumemprof.estimate.process.notes import Notes
from gpumemprof.estimate.shelter.changes import Changes

SNAPSHOTS = Path(__file__).parents[4] / "tests/data/snapshots"
FITTING = "gpt2_b4_fp32_adamw"
RUNNING_OUT = "gpt2_b32_fp32_adamw_oom"
NO_LIMIT = 1 << 50

ASSUMED = [
    ("value", "a condition was taken to be True", "/project/train.py", 52, 3),
    ("kernel", "attention takes the flash kernel", "/project/model.py", 7, 1),
]


def predicted(
    folder: Path,
    snapshot: str = FITTING,
    card: str = "t4",
    limit_bytes: int = NO_LIMIT,
    ended: str = "steps",
    certainty: dict[str, int] | None = None,
    limits: tuple[int, ...] = (),
) -> Run:
    """The run of a snapshot, as if it had been predicted."""
    plain = folder / f"{snapshot}.pickle"
    plain.write_bytes(gzip.decompress((SNAPSHOTS / f"{snapshot}.pickle.gz").read_bytes()))
    path = folder / "train.gmp"
    path.unlink(missing_ok=True)
    told = {
        **facts.first_facts(find_card(card), limit_bytes),
        **facts.certainty_facts({"exact": 1} if certainty is None else certainty),
        **facts.assumption_facts(ASSUMED),
        facts.ENDED: ended,
    }
    _core.capture_replace_with_snapshot(bytes(plain), bytes(path), told)
    recording = gpumemprof.load(path)
    prediction = Prediction.read(recording, limit_bytes, limits)
    assert prediction is not None
    return Run(path, recording, prediction, Notes(ended, 3), [], Changes())
