"""Memory that grows from step to step: one sentence, no activations, and no remedy for it."""

from __future__ import annotations

import json
from pathlib import Path

import gpumemprof
import pytest
from gpumemprof.__main__ import main

SNAPSHOTS = Path(__file__).parents[2] / "data/snapshots"
LEAK = SNAPSHOTS / "leak_loss_history.pickle.gz"
CLEAN = SNAPSHOTS / "clean_training.pickle.gz"


def test_a_run_that_keeps_its_losses_grows_by_what_torch_counted() -> None:
    truth = json.loads((SNAPSHOTS / "leak_loss_history.json").read_text())
    counted = truth["allocated_per_step"]
    growth = gpumemprof.load(LEAK).report()["devices"][0]["growth"]
    assert growth["is_growing"]
    assert growth["frame"]["line"] in truth["leak_lines"]
    pace = (counted[-1] - counted[5]) / (len(counted) - 6)
    assert growth["bytes_per_step"] == pytest.approx(pace, rel=0.05)
    assert growth["since_step"] <= 2
    assert growth["lines"][0]["grown_bytes"] <= growth["grown_bytes"]


def test_training_that_does_not_grow_is_not_said_to() -> None:
    growth = gpumemprof.load(CLEAN).report()["devices"][0]["growth"]
    assert growth is not None and not growth["is_growing"]
    assert growth["lines"] == []


def test_a_few_steps_say_nothing() -> None:
    device = gpumemprof.load(SNAPSHOTS / "unet_b4_fp32_adamw.pickle.gz").report()["devices"][0]
    assert device["growth"] is None


@pytest.mark.parametrize("verb", ["report", "advise"])
def test_the_first_lines_say_that_it_grows(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(LEAK)]) == 0
    out = capfd.readouterr().out
    first = " ".join(" ".join(out.splitlines()[:12]).split())
    assert "Memory grows from step to step:" in first
    assert "scenarios.py:27" in first
    assert main([verb, str(CLEAN)]) == 0
    assert "Memory grows" not in capfd.readouterr().out


def test_what_grows_is_no_activation_and_stays_under_every_remedy() -> None:
    recording = gpumemprof.load(LEAK)
    advice = recording.advise(batch=64)
    grown = advice["growth"]["grown_bytes"]
    at_peak = advice["baseline"]["at_peak"]
    assert at_peak["unknown"] >= 0.9 * grown
    assert at_peak["activations"] < 0.2 * grown
    remedies = {entry["name"]: entry for entry in advice["remedies"]}
    for name in ("batch_x0.5", "micro_batch_x0.25", "pure_bf16"):
        assert remedies[name]["predicted_peak_allocated_bytes"] > grown, name
    # A quarter of the batch leaves the peak where it is, except for one step's activations.
    peak = advice["baseline"]["peak_allocated_bytes"]
    part = remedies["micro_batch_x0.25"]["predicted_peak_allocated_bytes"]
    assert part == pytest.approx(peak, rel=0.05)
