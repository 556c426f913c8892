"""Replaying recordings under other settings, from Python."""

from __future__ import annotations

from pathlib import Path

import gpumemprof
import pytest

SNAPSHOTS = Path(__file__).parents[2] / "data/snapshots"


def load(name: str) -> gpumemprof.Recording:
    return gpumemprof.load(SNAPSHOTS / f"{name}.pickle.gz")


@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.pickle.gz")), ids=lambda path: path.stem)
def test_simulates_every_recording_without_a_mismatch(path: Path) -> None:
    if "gc" in path.stem:
        pytest.skip("a limit that only garbage collection shows must be given: see below")
    for device in gpumemprof.load(path).replay()["devices"]:
        verified = device["verified"]
        assert verified["allocations"] > 0
        assert verified["address_mismatches"] == 0
        assert verified["segment_mismatches"] == 0
        assert verified["counter_mismatches"] == 0


@pytest.mark.parametrize("name", ["gc60_mixed_cap", "split200gc80_mixed_cap"])
def test_simulates_garbage_collection_under_the_limit_it_ran_with(name: str) -> None:
    import json

    truth = json.loads((SNAPSHOTS / f"stress_s_{name}.json").read_text())
    limit = int(truth["fraction"] * truth["total"])
    device = load(f"stress_s_{name}").replay(recorded_limit=limit)["devices"][0]
    assert device["verified"]["address_mismatches"] == 0
    assert device["verified"]["segment_mismatches"] == 0
    assert device["verified"]["counter_mismatches"] == 0
    assert device["runs"][0]["num_alloc_retries"] == truth["stats"]["num_alloc_retries"]


@pytest.mark.parametrize(
    ("conf", "recorded"),
    [
        ("expandable_segments:True", "gpt2_b4_fp32_adamw_expandable"),
        ("max_split_size_mb:64", "gpt2_b4_fp32_adamw_split64"),
    ],
)
def test_predicts_what_another_setting_really_reserved(conf: str, recorded: str) -> None:
    predicted = load("gpt2_b4_fp32_adamw").replay(conf)["devices"][0]["runs"][-1]
    real = load(recorded).devices[0].peak_reserved_bytes
    assert predicted["alloc_conf"] == conf
    assert predicted["peak_reserved_bytes"] == real


def test_a_run_just_fits_the_least_memory_it_names() -> None:
    recording = load("unet_b4_fp32_adamw")
    least = recording.replay("")["devices"][0]["runs"][-1]["min_memory_bytes"]
    fits = recording.replay("", memory_limit=least)["devices"][0]["runs"][-1]
    assert fits["num_ooms"] == 0
    too_little = recording.replay("", memory_limit=least // 2)["devices"][0]["runs"][-1]
    assert too_little["num_ooms"] > 0
    assert too_little["first_oom_event"] is not None


def test_a_simulated_run_is_a_recording(tmp_path: Path) -> None:
    recording = load("gpt2_b4_fp32_adamw")
    path = tmp_path / "simulated.gmp"
    recording.simulate(path, "expandable_segments:True")
    simulated = gpumemprof.load(path)
    assert simulated.report()["input"]["kind"] == "simulated"
    expected = recording.replay("expandable_segments:True")["devices"][0]["runs"][-1]
    device = simulated.devices[0]
    assert device.peak_reserved_bytes == expected["peak_reserved_bytes"]
    assert device.peak.allocated_bytes == expected["peak_allocated_bytes"]
    with pytest.raises(gpumemprof.Error):
        recording.simulate(path)


def test_the_search_ranks_at_least_a_dozen_settings() -> None:
    runs = load("mlp_b64_fp32_adam").replay(search=True)["devices"][0]["runs"]
    assert len(runs) > 12
    reserved = [run["peak_reserved_bytes"] for run in runs[1:]]
    assert reserved == sorted(reserved)


@pytest.mark.parametrize("name", ["mlp_b64_fp32_adam", "gpt2_b4_fp32_adamw"])
def test_what_was_unused_is_what_was_free_when_most_was_reserved(name: str) -> None:
    device = load(name).replay("")["devices"][0]
    recorded = device["runs"][0]
    free = device["fragmentation_at_peak_reserved"]["free_bytes"]
    assert free / recorded["peak_reserved_bytes"] == pytest.approx(recorded["fragmentation"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alloc_conf": "expandable_segmnts:True"}, "did you mean expandable_segments"),
        ({"memory_limit": 1000}, "limit"),
        ({"torch_version": "1.13"}, "1.13"),
    ],
)
def test_misuse_is_a_sentence(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(gpumemprof.UsageError, match=words):
        load("mlp_b64_fp32_adam").replay(**arguments)  # type: ignore[arg-type]
