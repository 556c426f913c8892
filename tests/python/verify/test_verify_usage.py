"""The command line of advise --verify, and the text and JSON of its comparisons."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import gpumemprof
import pytest
from conftest import recording_of
from gpumemprof import _core
from gpumemprof.__main__ import main
from gpumemprof.verify.apply import NAMES, Effect
from gpumemprof.verify.program import add_remedies
from gpumemprof.verify.result import Baseline, Measured, Prediction, RemedyResult, StepTime
from gpumemprof.verify.result_text import as_text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--verify", "sgd", "--", "x.py"], "'sgd' cannot be applied to a program; these can: "),
        (["--verify", "magic", "--", "x.py"], "'magic' cannot be applied to a program"),
        (["--verify", "fused"], "the program is missing"),
        (["--verify", "--", "x.py"], "--verify needs a value"),
        (["--verify", "fused", "--", "x.py"], "x.py: no such script"),
        (["--verify", "fused", "-m"], "-m needs a module"),
        (["--verify", "fused+foreach_off", "--", "x.py"], "cannot be combined"),
        (["--verify", "fused", "--fit", "1GiB", "--", "x.py"], "cannot be combined"),
        (["--verify", "fused", "--faster", "--", "x.py"], "unknown flag '--faster'"),
        (["--verify", "fused", "--batch", "0", "--", "x.py"], "--batch takes a number above 0"),
        (["--verify", "fused", "a.gmp", "b.gmp", "--", "x.py"], "unexpected argument 'b.gmp'"),
        (["--verify", "fused", "--checkpoint-class", "A", "--", __file__], "needs the remedy"),
        (["--verify", "expandable_segments", "--cpu", "--", __file__], "needs CUDA"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *words]) == 2
    out, error = capfd.readouterr()
    assert out == ""
    assert sentence in error
    assert error.count("\n") == 1


def test_a_file_that_is_not_there_is_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "none.gmp", "--verify", "fused", "--", __file__]) == 3
    assert "none.gmp: no such file" in capfd.readouterr().err


def test_a_recording_of_cuda_is_not_compared_with_cpu_tensors(
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = str(gpumemprof.demo_path())
    assert main(["advise", path, "--verify", "fused", "--cpu", "--", __file__]) == 4
    assert "a recording of CUDA memory" in capfd.readouterr().err


def test_both_helps_tell_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--help"]) == 0
    assert "--verify REMEDY -- SCRIPT" in capfd.readouterr().out
    assert main(["advise", "--verify", "--help"]) == 0
    assert "--checkpoint-class NAME" in capfd.readouterr().out


def test_expandable_segments_are_added_to_the_settings_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    conf = add_remedies(["expandable_segments"])
    assert conf["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    settings = "max_split_size_mb:64, expandable_segments:False"
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", settings)
    conf = add_remedies(["expandable_segments"])
    assert conf["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:64,expandable_segments:True"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in conf
    assert add_remedies(["fused"])["PYTORCH_ALLOC_CONF"] == settings


def result_on_cuda(settings: str) -> RemedyResult:
    advice = recording_of("mlp_b64_fp32_adam").advise()
    (entry,) = [one for one in advice["remedies"] if one["name"] == "expandable_segments"]
    baseline = Baseline("train.py", None, "cuda:0", 5 << 30, 6 << 30, StepTime(0.2, 0.15, 0.25))
    predicted = entry["predicted_peak_reserved_bytes"]
    measured = Measured(
        entry["predicted_peak_allocated_bytes"], 2 * predicted, StepTime(0.3), settings
    )
    return RemedyResult(
        ["expandable_segments"], Prediction.from_json(entry), measured, [_set()], baseline
    )


def _set() -> Effect:
    return Effect("expandable_segments", 1, "set in the environment")


@pytest.mark.parametrize(
    "settings",
    [
        '[{}, "max_split_size_mb:64,expandable_segments:True"]',
        '[{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, null]',
        '[{"expandable_segments": "True"}, null]',
    ],
)
def test_reserved_memory_is_compared_on_cuda(settings: str) -> None:
    result = result_on_cuda(settings)
    assert result.without_effect is None
    told = result.to_json()
    assert told["allocated_error_pct"] == pytest.approx(0)
    assert told["is_allocated_in_band"] is True
    assert told["reserved_error_pct"] == pytest.approx(-50)
    assert told["is_reserved_in_band"] is False
    assert told["measured_slowdown_pct"] == pytest.approx(50)
    lines = as_text(result.baseline, [result]).splitlines()
    assert "6.00 GiB reserved as it is" in lines[1]
    assert "  A step takes 300 ms instead of 200 ms (150 ms to 250 ms): +50.0 %" in lines
    assert lines[3].endswith("in band")
    assert lines[4].strip() == result.name
    assert lines[5].endswith("yes")
    assert lines[6].split()[0] == "reserved"
    assert lines[6].endswith("NO")


def test_the_comparison_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = result_on_cuda('[{"expandable_segments": "True"}, null]')
    slow = replace(result.measured, step=StepTime(0.4594, 0.4074, 0.5274))
    names = ["checkpointing_selective", "expandable_segments"]
    lines = as_text(result.baseline, [replace(result, names=names, measured=slow)]).splitlines()
    assert max(map(len, lines)) <= 80


def test_settings_that_the_program_overrides_are_said_to_change_nothing() -> None:
    result = result_on_cuda('[{}, "expandable_segments:False"]')
    assert "expandable_segments changed nothing" in str(result.without_effect)
    assert result.to_json()["measured_peak_reserved_bytes"] is None


def test_nothing_of_it_imports_torch() -> None:
    code = "import sys, gpumemprof.verify.command; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_can_be_applied_is_what_the_core_marks_as_verifiable() -> None:
    assert set(NAMES) == {entry.name for entry in _core.remedies() if entry.is_verifiable}
