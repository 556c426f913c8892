"""The lines about all ranks of a machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpumemprof.live.figures import Row
from gpumemprof.live.plain import PlainLines
from gpumemprof.live.ranks import ranks_line, silence_line
from gpumemprof.live.watched import RecordingState

MIB = 1 << 20


def made_row(rank: int | None, peak: int, step: int = 5, **device: Any) -> Row:
    report = {"rank": rank, "world_size": 8, "command": "train.py", "pid": 100 + (rank or 0)}
    figures = {"peak_allocated_bytes": peak * MIB, "steps": [{"step": step}], **device}
    return Row(SimpleNamespace(report=report), {"device": "cuda:0", **figures})  # type: ignore[arg-type]


def test_the_largest_peak_and_how_many_ranks_are_here() -> None:
    rows = [made_row(0, 64), made_row(1, 64), made_row(2, 92)]
    line = ranks_line(rows)
    assert line == "3 of 8 ranks: largest peak on rank 2, 92.0 MiB (median 64.0 MiB)"


def test_a_rank_that_is_behind() -> None:
    rows = [made_row(0, 64, 9), made_row(1, 64, 5), made_row(2, 64, 9)]
    assert ranks_line(rows).endswith("; rank 1 is behind, at step 5 of 9")
    assert "behind" not in ranks_line([made_row(0, 64, 6), made_row(1, 64, 5)])


def test_the_least_headroom_comes_first() -> None:
    def card(rank: int, used: int) -> Row:
        figures = {"used_now_bytes": used * MIB, "total_bytes": 1000 * MIB, "has_pool": True}
        return made_row(rank, 64, reserved_bytes=0, limit_bytes=None, **figures)

    line = ranks_line([card(0, 100), card(1, 700)])
    assert line.startswith("2 of 8 ranks: least headroom on rank 1, 300 MiB; largest peak")


def test_a_single_rank_and_programs_without_ranks_have_no_line() -> None:
    assert ranks_line([made_row(0, 64)]) == ""
    assert ranks_line([made_row(None, 64), made_row(None, 64)]) == ""
    assert ranks_line([]) == ""


def silent_row(rank: int, idle: float | None, step: int = 9, state: str = "recording") -> Row:
    row = made_row(rank, 64, step)
    row.recording.state = RecordingState(state, state)
    row.recording.idle_seconds = idle  # type: ignore[misc]
    return row


def test_ranks_that_are_all_silent_may_hang() -> None:
    rows = [silent_row(0, 200.0), silent_row(1, 181.0), silent_row(2, 190.0)]
    sentence = "no rank has allocated or stepped for 3 min: the job may hang"
    assert silence_line(rows) == sentence
    waiting = [*rows, silent_row(3, 185.0, step=8)]
    assert silence_line(waiting) == f"{sentence}; rank 3 is behind, and the others may wait for it"
    # Of a rank that has ended nothing more is expected.
    assert silence_line([*rows, silent_row(3, None, state="lost")]) == sentence


def test_a_job_in_which_one_rank_works_or_is_not_known_is_not_silent() -> None:
    silent = [silent_row(0, 200.0), silent_row(1, 200.0)]
    assert silence_line([*silent, silent_row(2, 1.0)]) == ""
    assert silence_line([*silent, silent_row(2, None)]) == ""
    assert silence_line([*silent, silent_row(2, 200.0, state="reading")]) == ""
    # Without steps it does not train, and may have nothing to do.
    serving = silent_row(2, 200.0)
    serving.device["steps"] = []
    assert silence_line([*silent, serving]) == ""
    assert silence_line(silent[:1]) == silence_line([]) == ""


def test_silence_is_a_line_of_its_own() -> None:
    recordings = [silent_row(0, 200.0).recording, silent_row(1, 200.0).recording]
    figures = ("allocated_bytes", "recent_peak_allocated_bytes", "peak_allocated_bytes")
    device = {"device": "cpu:0", "has_pool": False, "steps": [{"step": 9}]}
    for number, recording in enumerate(recordings):
        recording.report["devices"] = [{**device, **dict.fromkeys(figures, MIB)}]
        recording.path = f"rank{number}.gmp"  # type: ignore[assignment]
        recording.events_per_second, recording.notes = None, []
    watcher = SimpleNamespace(recordings=recordings, why_none=list)
    lines = PlainLines(watcher, is_once=True).lines()  # type: ignore[arg-type]
    assert lines[-1] == "no rank has allocated or stepped for 3 min: the job may hang"
    assert lines[-2].startswith("2 of 8 ranks: largest peak")
