"""Runs that ran out of memory: completed from their own facts, or lower bounds and no fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from benchmarks import benchmark
from gpumemprof.__main__ import main

SNAPSHOTS = Path(__file__).parents[2] / "data/snapshots"
OOM = SNAPSHOTS / "gpt2_b32_fp32_adamw_oom.pickle.gz"

pytest.importorskip("pyarrow")


def cuts(name: str, tmp_path: Path, parts: tuple[float, ...]) -> list[Any]:
    bench = benchmark("advice_completion")
    return list(bench.cuts_of(SNAPSHOTS / f"{name}.pickle.gz", tmp_path, parts))


@pytest.mark.parametrize("name", ["gpt2_b4_fp32_adamw", "unet_b4_fp32_adamw"])
def test_a_run_that_is_cut_is_completed_to_what_the_whole_run_took(
    name: str, tmp_path: Path
) -> None:
    found = cuts(name, tmp_path, (0.4,))
    later = [cut for cut in found if cut.step > 1]
    assert len(later) >= 4
    for cut in later:
        assert cut.peak_error_pct == pytest.approx(0, abs=1), cut
        assert cut.worst_remedy_pct == pytest.approx(0, abs=2), cut
        assert cut.is_in_band and not cut.is_refused, cut
    first = {cut.phase: cut for cut in found if cut.step == 1}
    assert first["optimizer_step"].peak_error_pct == pytest.approx(0, abs=1)
    for phase in ("forward", "backward"):
        assert first[phase].peak_error_pct is None
        assert first[phase].is_in_band and first[phase].is_refused


def test_a_first_forward_promises_nothing() -> None:
    advice = gpumemprof.load(OOM).advise(fit=2 << 30, batch=32)
    assert advice["completed"] is None
    assert "first forward" in advice["partial"]
    assert not advice["fit"]["is_found"]
    assert "first forward" in advice["fit"]["refusal"]
    for entry in advice["remedies"]:
        assert entry["predicted_peak_allocated_bytes"] is None, entry["name"]
        assert entry["saving_bytes"] is None, entry["name"]
    bounds = {e["name"]: e["at_least_peak_allocated_bytes"] for e in advice["remedies"]}
    # torch's counters for the same program at these sizes: 4 samples with checkpoints took
    # 2757 MiB, 8 without took 8288 MiB.
    assert bounds["checkpointing"] < 2757 << 20
    assert bounds["micro_batch_x0.25"] < 8288 << 20


@pytest.mark.parametrize("limit", ["2GiB", "4GiB"])
def test_the_command_says_why_it_cannot_tell_what_fits(
    limit: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", str(OOM), "--fit", limit, "--batch", "32"]) == 3
    out = " ".join(capfd.readouterr().out.split())
    assert "does not show what would fit into" in out
    assert "The run ran out of memory in its first" in out
    assert "Predicted peak" not in out
    assert "at least" in out
