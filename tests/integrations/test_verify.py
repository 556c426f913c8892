"""Remedies applied from outside: equal to handwritten ones, compared with the prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
from capture_programs import run_advise, run_command

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
        done = run_advise(folder, *words, *sizes)
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
    done = run_advise(in_backward.folder, *words, "--", "train.py", *IN_BACKWARD)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("loss ")
    assert lines[1] == "train.py 64 200: predicted and measured memory"
    assert "(kept/as_it_is.gmp)" in lines[2]
    assert lines.count(lines[0]) == 1
    assert "checkpointing + foreach_off: 5 modules of class Block, AdamW" in done.stdout
    assert "Not predicted" not in done.stdout
