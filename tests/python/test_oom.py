"""The verdict on recorded runs that ran out of memory: what bound, and what is to be done."""

from __future__ import annotations

from pathlib import Path

import gpumemprof
import pytest

DATA = Path(__file__).parents[1] / "data"
FRAGMENTED = DATA / "snapshots" / "oom_fragmented.pickle.gz"
SHORTAGE = DATA / "sim" / "oom_true_shortage.pickle.gz"
LIMIT = DATA / "snapshots" / "gpt2_b32_fp32_adamw_oom.pickle.gz"
MIB, GIB = 1 << 20, 1 << 30


def verdict(path: Path):
    (device,) = gpumemprof.load(path).report()["devices"]
    (oom,) = device["oom_reports"]
    return oom


def test_gaps_that_a_setting_joins_are_fragmentation():
    oom = verdict(FRAGMENTED)
    assert oom["cause"] == "fragmentation"
    assert "expandable_segments:True" in oom["surviving_settings"]
    assert oom["contributing"] == ["limit"]
    # The snapshot does not say the limit (4.19 GiB), so this rests on the range it must lie in.
    assert oom["doubts"] == ["limit"]
    assert oom["limit_bytes"]["low"] < 4.19 * GIB < oom["limit_bytes"]["high"]


def test_a_line_that_fills_memory_is_a_true_shortage():
    oom = verdict(SHORTAGE)
    assert oom["cause"] == "shortage"
    assert oom["is_proven"]
    assert oom["contributing"] == ["limit"]
    assert 0 < oom["short_bytes"]["low"] <= oom["short_bytes"]["high"] == 100 * MIB
    assert oom["surviving_settings"] == []


def test_a_limit_on_the_process_is_named_with_the_shortage_under_it():
    oom = verdict(LIMIT)
    assert oom["cause"] == "limit"
    assert oom["is_proven"]
    assert oom["contributing"] == ["shortage"]
    allowed = 0.08 * 150_109_880_320
    assert oom["limit_bytes"]["low"] <= allowed <= oom["limit_bytes"]["high"]
    needed = oom["allocated_bytes"] + oom["wanted_bytes"]
    assert oom["short_bytes"]["low"] <= needed - allowed <= oom["short_bytes"]["high"]


@pytest.mark.parametrize(
    ("path", "first", "then"),
    [
        (
            FRAGMENTED,
            "cuda:0 ran out of memory: probably fragmentation: 1.17 GiB in use and 3.00 GiB",
            "starts: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True cuda:0",
        ),
        (
            SHORTAGE,
            "cuda:0 ran out of memory: true shortage: 4.10 GiB in use and 100 MiB more are",
            "made 42 blocks of that size and freed none",
        ),
        (
            LIMIT,
            "cuda:0 ran out of memory: a limit on this process refused 192 MiB while the",
            "make the run fit: gpumemprof advise ",
        ),
    ],
    ids=["fragmentation", "shortage", "limit"],
)
def test_the_first_line_is_the_verdict(command, path, first, then):
    out = command("report", str(path)).stdout
    _, _, opening = out.partition("\n\n")
    assert opening.startswith(first)
    assert then in " ".join(opening.split())
