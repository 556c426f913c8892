"""Remedies applied from outside: equal to handwritten ones, compared with the prediction."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from capture_programs import run_command
from conftest import recording_of
from gpumemprof import _core
from gpumemprof.__main__ import main
from gpumemprof.verify import command as verify
from gpumemprof.verify.apply import NAMES, Effect
from gpumemprof.verify.result import Baseline, Measured, StepTime, Verdict, as_text

# One model with its peak in backward and one with its peak in the optimizer's step.
TRAIN = """
import functools
import sys
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

KEPT = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
OPTIONS = {
    "checkpointing": {},
    "checkpointing_selective": {
        "context_fn": functools.partial(create_selective_checkpoint_contexts, KEPT)
    },
}

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, scale=1.0):
        return x + scale * self.down(F.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self, width, vocabulary, options):
        super().__init__()
        self.options = options
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(5))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            if self.options is not None:
                x = checkpoint(block, x, scale=0.5, use_reentrant=False, **self.options)
            else:
                x = block(x, scale=0.5)
        return self.head(x)

def train(by_hand="", length=64, vocabulary=200):
    torch.manual_seed(0)
    model = Model(64, vocabulary, OPTIONS.get(by_hand))
    mode = {"foreach_off": {"foreach": False}, "fused": {"fused": True}}
    optimizer = torch.optim.AdamW(model.parameters(), **mode.get(by_hand, {"foreach": True}))
    for step in range(4):
        ids = torch.randint(0, vocabulary, (4, length + 1))
        with torch.autocast("cpu", torch.bfloat16, enabled=by_hand == "autocast_bf16"):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=by_hand == "zero_grad_to_none")
        if step == 1:
            with torch.no_grad(), torch.autocast(
                "cpu", torch.bfloat16, enabled=by_hand == "autocast_bf16"
            ):
                model(ids[:, :-1])
    print("loss", loss.item())

if __name__ == "__main__":
    train(length=int(sys.argv[1]), vocabulary=int(sys.argv[2]))
"""
BY_HAND = """
import sys
import gpumemprof
import train
for name in sys.argv[3:]:
    with gpumemprof.record(name + ".gmp", cpu=True):
        train.train(name, int(sys.argv[1]), int(sys.argv[2]))
"""
IN_BACKWARD, IN_STEP = ("64", "200"), ("4", "2000")


def start(
    folder: Path, *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_command(folder, ["-m", "gpumemprof", "advise", *words], environment)


def peak_of(path: Path) -> int:
    peak = gpumemprof.load(path).devices[0].peak.allocated_bytes
    assert peak is not None
    return peak


class Comparison:
    """One command, compared with the same done by hand."""

    def __init__(self, folder: Path, remedies: list[str], sizes: tuple[str, str]) -> None:
        (folder / "train.py").write_text(TRAIN)
        (folder / "by_hand.py").write_text(BY_HAND)
        words = ("--verify", ",".join(remedies), "--json", "--keep", "kept", "--", "train.py")
        done = start(folder, *words, *sizes)
        assert done.returncode == 0, done.stderr
        self.printed = done.stderr.splitlines()
        self.result: dict[str, Any] = json.loads(done.stdout)
        self.folder = folder
        hand = run_command(folder, ["by_hand.py", *sizes, *remedies], None)
        assert hand.returncode == 0, hand.stderr
        self.printed_by_hand = hand.stdout.splitlines()

    def verified(self, name: str) -> dict[str, Any]:
        (entry,) = [entry for entry in self.result["verified"] if entry["name"] == name]
        return dict(entry)

    def by_hand(self, name: str) -> int:
        return peak_of(self.folder / f"{name}.gmp")


@pytest.fixture(scope="module")
def in_backward(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("backward")
    names = ["checkpointing", "checkpointing_selective", "autocast_bf16", "zero_grad_to_none"]
    return Comparison(folder, names, IN_BACKWARD)


@pytest.fixture(scope="module")
def in_step(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return Comparison(tmp_path_factory.mktemp("step"), ["foreach_off", "fused"], IN_STEP)


@pytest.mark.parametrize(
    "name", ["checkpointing", "checkpointing_selective", "autocast_bf16", "zero_grad_to_none"]
)
def test_what_can_be_applied_is_what_the_core_marks_as_verifiable() -> None:
    assert set(NAMES) == {entry.name for entry in _core.remedies() if entry.is_verifiable}


def test_what_forward_needs_equals_the_remedy_written_by_hand(
    in_backward: Comparison, name: str
) -> None:
    measured = in_backward.verified(name)["measured_peak_allocated_bytes"]
    assert measured == in_backward.by_hand(name)
    assert measured < 0.95 * in_backward.result["baseline"]["peak_allocated_bytes"]


@pytest.mark.parametrize("name", ["foreach_off", "fused"])
def test_how_the_step_is_done_equals_the_remedy_written_by_hand(
    in_step: Comparison, name: str
) -> None:
    measured = in_step.verified(name)["measured_peak_allocated_bytes"]
    assert measured == in_step.by_hand(name)
    assert measured < 0.95 * in_step.result["baseline"]["peak_allocated_bytes"]


def test_the_program_computes_what_it_computes_with_the_remedy_by_hand(
    in_backward: Comparison, in_step: Comparison
) -> None:
    # The first run is the unchanged program.
    for comparison in (in_backward, in_step):
        assert comparison.printed[1:] == comparison.printed_by_hand


def test_prediction_and_measurement_are_compared(in_backward: Comparison) -> None:
    result = in_backward.result
    assert result["schema_version"] == 1
    assert result["device"] == "cpu:0"
    assert result["baseline"]["path"] is None
    assert result["baseline"]["peak_reserved_bytes"] is None
    baseline = result["baseline"]
    assert 0 < baseline["step_seconds_low"] <= baseline["step_seconds"]
    assert baseline["step_seconds"] <= baseline["step_seconds_high"]
    kept = peak_of(in_backward.folder / "kept" / "as_it_is.gmp")
    assert result["baseline"]["peak_allocated_bytes"] == kept
    entry = in_backward.verified("checkpointing")
    assert entry["applied"] == ["5 modules of class Block"]
    assert entry["without_effect"] is None
    predicted = entry["predicted_peak_allocated_bytes"]
    measured = entry["measured_peak_allocated_bytes"]
    band = entry["predicted_peak_allocated_band"]
    assert entry["allocated_error_pct"] == pytest.approx(100 * (predicted / measured - 1))
    assert entry["is_allocated_in_band"] == (band["low_bytes"] <= measured <= band["high_bytes"])
    assert entry["measured_peak_reserved_bytes"] is None
    assert entry["step_seconds"] > 0
    slower = 100 * (entry["step_seconds"] / result["baseline"]["step_seconds"] - 1)
    assert entry["measured_slowdown_pct"] == pytest.approx(slower)


def test_a_recording_spares_the_run_as_it_is(in_backward: Comparison) -> None:
    words = ("kept/as_it_is.gmp", "--verify", "checkpointing+foreach_off")
    done = start(in_backward.folder, *words, "--", "train.py", *IN_BACKWARD)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("loss ")
    assert lines[1] == "train.py 64 200: predicted against measured"
    assert "(kept/as_it_is.gmp)" in lines[2]
    assert lines.count(lines[0]) == 1
    assert "checkpointing + foreach_off: 5 modules of class Block, AdamW" in done.stdout
    assert "Not predicted" not in done.stdout


NOTHING = """
import sys, torch
layer = torch.nn.Linear(50, 50)
if sys.argv[1] == "step":
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=False)
    for _ in range(3):
        layer(torch.randn(10, 50)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
elif sys.argv[1] == "autocast":
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.randn(10, 50)).sum()
else:
    torch.randn(100).sum()
"""


NONE_REPEATED = "no class of modules is repeated in a ModuleList or Sequential"


@pytest.mark.parametrize(
    ("words", "argument", "sentences"),
    [
        (
            ["checkpointing,foreach_off,zero_grad_to_none"],
            "step",
            [NONE_REPEATED, "AdamW steps one parameter after the other already", "drops gradients"],
        ),
        (["checkpointing", "--checkpoint-class", "Block"], "step", ["no module of class Block"]),
        (["fused,autocast_bf16"], "none", ["no optimizer stepped", "no module was called"]),
        (["autocast_bf16"], "autocast", ["uses autocast already"]),
    ],
)
def test_a_remedy_that_changes_nothing_is_said_and_not_compared(
    tmp_path: Path, words: list[str], argument: str, sentences: list[str]
) -> None:
    (tmp_path / "train.py").write_text(NOTHING)
    done = start(tmp_path, "--verify", *words, "--json", "--", "train.py", argument)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    entries = json.loads(done.stdout)["verified"]
    assert len(lines) == len(entries) == len(sentences)
    for name, line, entry, sentence in zip(words[0].split(","), lines, entries, sentences):
        assert line.startswith(f"gpumemprof: {name} changed nothing in this program: ")
        assert sentence in line
        assert sentence in entry["without_effect"]
        assert entry["measured_peak_allocated_bytes"] is None
        assert entry["is_allocated_in_band"] is None


def test_a_program_that_fails_passes_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys, torch\ntorch.ones(9)\nsys.exit(7)\n")
    done = start(tmp_path, "--verify", "fused", "--", "train.py")
    assert done.returncode == 7
    assert done.stdout == ""
    said = "gpumemprof: the program as it is ended with exit code 7; there is nothing to compare\n"
    assert done.stderr == said


def test_a_program_without_tensors_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing')\n")
    done = start(tmp_path, "--verify", "fused", "--", "train.py")
    assert done.returncode == 3
    assert done.stderr.startswith("gpumemprof: train.py: it made no tensors")


def test_a_program_that_fails_with_the_remedy_alone_is_told_apart(tmp_path: Path) -> None:
    program = """
    import os, signal, torch
    layer = torch.nn.Linear(5, 5)
    optimizer = torch.optim.SGD(layer.parameters(), foreach=True)
    layer(torch.randn(2, 5)).sum().backward()
    optimizer.step()
    if not optimizer.param_groups[0]["foreach"]:
        os.kill(os.getpid(), signal.SIGTERM)
    """
    (tmp_path / "train.py").write_text("if True:\n" + program)
    done = start(tmp_path, "--verify=foreach_off", "--", "train.py")
    assert done.returncode == 128 + signal.SIGTERM
    assert "with foreach_off ended with signal SIGTERM" in done.stderr


def test_a_module_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(NOTHING)
    done = start(tmp_path, "--verify", "fused", "-m", "package.train", "step")
    assert done.returncode == 0, done.stderr
    assert "AdamW with 1 group" in done.stdout
    assert not list(tmp_path.glob("*.gmp"))


# As transformers models do it: a switch on the model, and layers that check it.
WITH_SWITCH = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Layer(nn.Module):
    gradient_checkpointing = False

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def __call__(self, x):
        if self.gradient_checkpointing:
            return checkpoint(super().__call__, x, **self.options)
        return super().__call__(x)

    def forward(self, x):
        return self.down(self.up(x).relu())

class Model(nn.Module):
    supports_gradient_checkpointing = True

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs):
        for layer in self.layers:
            layer.gradient_checkpointing = True
            layer.options = gradient_checkpointing_kwargs

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

model = Model()
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.randn(512, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_model_with_a_switch_of_its_own_is_asked_to_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_SWITCH)
    done = start(tmp_path, "--verify", "checkpointing", "--json", "--", "train.py")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (entry,) = result["verified"]
    switched = "Model.gradient_checkpointing_enable() for 4 modules of class Layer"
    assert entry["applied"] == [switched]
    assert entry["measured_peak_allocated_bytes"] < result["baseline"]["peak_allocated_bytes"]


COMPILED = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    compiled(torch.randn(64, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_every_pass_of_a_compiled_model_runs_under_autocast(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPILED)
    done = start(tmp_path, "--verify", "autocast_bf16", "--json", "--", "train.py")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["verified"]
    assert entry["applied"] == ["3 forward passes with their losses"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--verify", "sgd", "--", "x.py"], "'sgd' cannot be applied from outside; what can is"),
        (["--verify", "magic", "--", "x.py"], "'magic' cannot be applied from outside"),
        (["--verify", "fused"], "the program is missing"),
        (["--verify", "--", "x.py"], "--verify needs a value"),
        (["--verify", "fused", "--", "x.py"], "x.py: no such script"),
        (["--verify", "fused", "-m"], "-m needs a module"),
        (["--verify", "fused+foreach_off", "--", "x.py"], "exclude each other"),
        (["--verify", "fused", "--fit", "1GiB", "--", "x.py"], "do not go together"),
        (["--verify", "fused", "--faster", "--", "x.py"], "does not know --faster"),
        (["--verify", "fused", "--batch", "0", "--", "x.py"], "--batch takes a number above 0"),
        (["--verify", "fused", "a.gmp", "b.gmp", "--", "x.py"], "more than one FILE"),
        (["--verify", "fused", "--checkpoint-class", "A", "--", __file__], "is for the remedy"),
        (["--verify", "expandable_segments", "--cpu", "--", __file__], "is for CUDA"),
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
    conf = verify._environment(["expandable_segments"])
    assert conf["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    settings = "max_split_size_mb:64, expandable_segments:False"
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", settings)
    conf = verify._environment(["expandable_segments"])
    assert conf["PYTORCH_ALLOC_CONF"] == "max_split_size_mb:64,expandable_segments:True"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in conf
    assert verify._environment(["fused"])["PYTORCH_ALLOC_CONF"] == settings


def verdict_on_cuda(settings: str) -> Verdict:
    advice = recording_of("mlp_b64_fp32_adam").advise()
    (entry,) = [one for one in advice["remedies"] if one["name"] == "expandable_segments"]
    baseline = Baseline("train.py", None, "cuda:0", 5 << 30, 6 << 30, StepTime(0.2, 0.15, 0.25))
    predicted = entry["predicted_peak_reserved_bytes"]
    measured = Measured(
        entry["predicted_peak_allocated_bytes"], 2 * predicted, StepTime(0.3), settings
    )
    return Verdict(["expandable_segments"], entry, measured, [_set()], baseline)


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
    verdict = verdict_on_cuda(settings)
    assert verdict.without_effect is None
    told = verdict.to_json()
    assert told["allocated_error_pct"] == pytest.approx(0)
    assert told["is_allocated_in_band"] is True
    assert told["reserved_error_pct"] == pytest.approx(-50)
    assert told["is_reserved_in_band"] is False
    assert told["measured_slowdown_pct"] == pytest.approx(50)
    lines = as_text(verdict.baseline, [verdict]).splitlines()
    assert "6.00 GiB reserved as it is" in lines[1]
    assert "  A step takes 300 ms instead of 200 ms (150 ms to 250 ms): +50.0 %" in lines
    assert lines[4].endswith("yes")
    assert lines[5].split()[0] == "reserved"
    assert lines[5].endswith("NO")


def test_settings_that_the_program_overrides_are_said_to_change_nothing() -> None:
    verdict = verdict_on_cuda('[{}, "expandable_segments:False"]')
    assert "expandable_segments changed nothing" in str(verdict.without_effect)
    assert verdict.to_json()["measured_peak_reserved_bytes"] is None


def test_nothing_of_it_imports_torch() -> None:
    code = "import sys, gpumemprof.verify.command; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
