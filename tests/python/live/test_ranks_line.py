"""The line about all ranks of a machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpumemprof.live.figures import Row
from gpumemprof.live.ranks import ranks_line

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
