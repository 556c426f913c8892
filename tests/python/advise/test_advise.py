"""What remedies would save: predictions, bands, limits, and what cannot be predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from gpumemprof.__main__ import main

SNAPSHOTS = Path(__file__).parents[2] / "data/snapshots"
NAMES = {
    *("checkpointing", "autocast_bf16", "pure_bf16", "sgd", "sgd_momentum", "lion", "adafactor"),
    *("adam_8bit", "foreach_off", "fused", "batch_x0.5", "batch_x2", "accumulate_x4"),
    *("expandable_segments", "checkpointing_selective", "autocast_fp16", "sequence_x0.5"),
    *("sequence_x2", "empty_cache"),
}


def load(name: str) -> gpumemprof.Recording:
    return gpumemprof.load(SNAPSHOTS / f"{name}.pickle.gz")


def remedies(advice: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in advice["remedies"]}


def test_every_remedy_has_its_figures_and_sentences() -> None:
    advice = load("gpt2_b4_fp32_adamw").advise()
    assert advice["schema_version"] == 1
    assert advice["baseline"]["peak_phase"] == "backward"
    entries = remedies(advice)
    assert entries.keys() >= NAMES
    for name in NAMES:
        entry = entries[name]
        band = entry["predicted_peak_allocated_band"]
        peak = entry["predicted_peak_allocated_bytes"]
        assert band["low_bytes"] < peak < band["high_bytes"], name
        saved = advice["baseline"]["peak_allocated_bytes"] - peak
        assert entry["saving_bytes"] == saved, name
        assert entry["provenance"] in ("simulated", "estimated"), name
        assert entry["why"].endswith("."), name
        assert entry["how"], name


# torch's own counters for the same run with the remedy, on a GPU.
@pytest.mark.parametrize(
    ("remedy", "true_mib", "error"),
    [
        ("checkpointing", 2757, 0.03),
        ("autocast_bf16", 4561, 0.03),
        ("autocast_fp16", 4561, 0.03),
        ("pure_bf16", 3113, 0.02),
        ("sgd", 3942, 0.001),
        ("sgd_momentum", 4417, 0.001),
        ("lion", 4417, 0.001),
        ("adafactor", 3943, 0.001),
        ("fused", 4891, 0.001),
        ("foreach_off", 4891, 0.001),
        ("accumulate_x4", 5369, 0.001),
        ("batch_x0.5", 3206, 0.001),
        ("batch_x2", 8288, 0.001),
        ("sequence_x2", 8288, 0.001),
        ("expandable_segments", 4878, 0.001),
    ],
)
def test_predicts_what_the_changed_run_really_took(
    remedy: str, true_mib: int, error: float
) -> None:
    entry = remedies(load("gpt2_b4_fp32_adamw").advise())[remedy]
    true = true_mib << 20
    assert entry["predicted_peak_allocated_bytes"] == pytest.approx(true, rel=error)
    band = entry["predicted_peak_allocated_band"]
    assert band["low_bytes"] <= true <= band["high_bytes"]


def test_expandable_segments_reserve_what_they_really_did() -> None:
    entry = remedies(load("gpt2_b4_fp32_adamw").advise())["expandable_segments"]
    real = load("gpt2_b4_fp32_adamw_expandable").devices[0].peak_reserved_bytes
    assert entry["predicted_peak_reserved_bytes"] == real


def test_a_run_with_expandable_segments_is_not_told_to_use_them() -> None:
    entry = remedies(load("gpt2_b4_fp32_adamw_expandable").advise())["expandable_segments"]
    assert entry["predicted_peak_allocated_bytes"] is None
    assert entry["predicted_peak_allocated_band"] is None
    assert "already" in entry["why"]


def test_fitting_names_remedies_whose_run_survives_the_limit() -> None:
    recording = load("gpt2_b4_fp32_adamw")
    limit = recording.advise()["baseline"]["peak_allocated_bytes"] * 6 // 10
    fit = recording.advise(fit=limit)["fit"]
    assert fit["is_found"]
    assert fit["remedies"]
    assert fit["predicted_peak_allocated_bytes"] <= limit
    assert fit["largest_batch_factor"] >= 1


def test_a_fit_names_its_blocks_and_other_sets_that_fit() -> None:
    recording = load("gpt2_b4_fp32_adamw")
    limit = recording.advise()["baseline"]["peak_allocated_bytes"] * 8 // 10
    fit = recording.advise(fit=limit)["fit"]
    sets = [fit, *fit["alternatives"]]
    assert 1 < len(sets) <= 4
    assert len({tuple(entry["remedies"]) for entry in sets}) == len(sets)
    for entry in sets:
        assert entry["predicted_peak_allocated_band"]["high_bytes"] <= limit
        blocks = entry["checkpointing"]
        assert (blocks is not None) == ("checkpointing" in entry["remedies"])
        if blocks is not None:
            assert blocks["of"] == 12
            assert blocks["blocks"] == len(blocks["which"]) <= 12
            assert "checkpoint(block" in blocks["how"]
            assert blocks["modules"] is None
    assert any(entry["checkpointing"] and entry["checkpointing"]["blocks"] < 12 for entry in sets)


def test_a_known_length_says_how_many_tokens_fit() -> None:
    fit = load("gpt2_b4_fp32_adamw").advise(fit=1 << 34, sequence=512)["fit"]
    assert fit["largest_sequence"] == int(512 * fit["largest_sequence_factor"]) > 512


def test_a_model_without_sequences_says_so() -> None:
    advice = load("unet_b4_fp32_adamw").advise(fit=1 << 40)
    entry = remedies(advice)["sequence_x2"]
    assert entry["predicted_peak_allocated_bytes"] is None
    assert "no sequences" in entry["why"]
    assert advice["fit"]["largest_sequence_factor"] is None


def test_moving_to_the_host_costs_a_rule_of_thumb_and_recomputing_what_was_recorded() -> None:
    entries = remedies(load("gpt2_b4_fp32_adamw").advise())
    assert entries["offload_activations"]["slowdown_provenance"] == "rule_of_thumb"
    assert entries["checkpointing"]["slowdown_provenance"] == "estimated"
    assert entries["sgd"]["slowdown_pct"] is None
    assert entries["sgd"]["slowdown_provenance"] is None


def test_gradients_that_go_behind_each_step_leave_nothing_to_do() -> None:
    entries = remedies(load("gpt2_b4_fp32_adamw").advise())
    for name in ("zero_grad_to_none", "zero_grad_early"):
        assert entries[name]["predicted_peak_allocated_bytes"] is None
        assert entries[name]["saving_bytes"] is None
        assert entries[name]["why"]


def test_a_known_batch_says_how_many_samples_fit_and_which_parts_it_has() -> None:
    recording = load("gpt2_b4_fp32_adamw")
    advice = recording.advise(fit=1 << 34, batch=4)
    assert advice["fit"]["largest_batch"] > 4
    assert "cannot be split" in remedies(advice)["micro_batch_x0.125"]["why"]
    parts = remedies(recording.advise(batch=32))["micro_batch_x0.125"]
    assert parts["saving_bytes"] > 0


def test_a_limit_above_everything_needs_no_remedy() -> None:
    fit = load("unet_b4_fp32_adamw").advise(fit=1 << 40)["fit"]
    assert fit["is_found"]
    assert fit["remedies"] == []
    assert fit["largest_batch_factor"] > 100


def test_a_run_without_training_steps_is_told_what_to_record() -> None:
    entries = remedies(load("stress_s_default_mixed_cap").advise())
    assert entries["sgd"]["predicted_peak_allocated_bytes"] is None
    assert "record" in entries["sgd"]["why"].lower()
    assert entries["expandable_segments"]["predicted_peak_allocated_bytes"] is not None


def test_the_command_ends_with_1_where_nothing_fits(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(SNAPSHOTS / "unet_b4_fp32_adamw.pickle.gz")
    assert main(["advise", path, "--fit", "1MiB"]) == 1
    assert "No set of these remedies" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--fit", "much"], 2, "--fit takes a size"),
        (["--fit", "0"], 2, "--fit takes a size"),
        (["--sequence", "0"], 2, "--sequence"),
        (["--device", "cuda:7"], 2, "there is no device 7 in it; it holds cuda:0"),
        (["--faster"], 2, "gpumemprof advise --help"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], code: int, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(SNAPSHOTS / "unet_b4_fp32_adamw.pickle.gz")
    assert main(["advise", path, *arguments]) == code
    error = capfd.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_file_that_is_no_recording_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see")
    assert main(["advise", str(path)]) == 3
    assert "notes.txt" in capfd.readouterr().err


def test_fit_below_one_byte_is_a_usage_error() -> None:
    with pytest.raises(gpumemprof.UsageError):
        load("mlp_b64_fp32_adam").advise(fit=0)
    with pytest.raises(gpumemprof.UsageError):
        load("mlp_b64_fp32_adam").advise(sequence=0)


def test_the_command_prints_what_python_returns(capfd: pytest.CaptureFixture[str]) -> None:
    path = SNAPSHOTS / "mlp_b64_fp32_adam.pickle.gz"
    assert main(["advise", str(path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == gpumemprof.load(path).advise()


def test_text_keeps_to_the_width_of_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = str(SNAPSHOTS / "gpt2_b4_fp32_adamw.pickle.gz")
    assert main(["advise", path, "--fit", "3GiB"]) == 0
    lines = capfd.readouterr().out.splitlines()
    code = ("    ", "  gpumemprof")  # is not wrapped
    assert all(len(line) <= 80 for line in lines if not line.startswith(code))


def text_of(capfd: pytest.CaptureFixture[str], name: str, *flags: str) -> str:
    assert main(["advise", str(SNAPSHOTS / f"{name}.pickle.gz"), *flags]) == 0
    return " ".join(capfd.readouterr().out.split())


def test_the_answer_comes_first_and_rows_that_save_nothing_are_left_out(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = text_of(capfd, "gpt2_b4_fp32_adamw")
    answer = (
        "The most without changing results: offload_activations -50.1 %; without slowing down: "
        "expandable_segments -0.3 %."
    )
    assert text.index(answer) < text.index("remedy allocated change")
    assert "-0.0 %" not in text.replace("empty_cache 4.78 GiB -0.0 %", "")  # reserves less
    assert "3 remedies are left out, which save 0.0 % here: " in text


def test_what_cannot_be_predicted_has_its_reason_once(capfd: pytest.CaptureFixture[str]) -> None:
    text = text_of(capfd, "frag_pinned_segments")
    assert text.count("The recording shows no forward pass") == 1
    assert "No times were recorded" not in text
    answer = "expandable_segments lowers that of reserved ones to 580 MiB."
    assert text.index(answer) < text.index("remedy allocated change")
