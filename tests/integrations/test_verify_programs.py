"""Programs that fail, that a remedy does not change, are compiled, or checkpoint themselves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from capture_programs import run_advise

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
            [NONE_REPEATED, "AdamW already updates one parameter at a time", "drops gradients"],
        ),
        (["checkpointing", "--checkpoint-class", "Block"], "step", ["no module of class Block"]),
        (["fused,autocast_bf16"], "none", ["no optimizer step was made", "no module was called"]),
        (["autocast_bf16"], "autocast", ["already uses autocast"]),
    ],
)
def test_a_remedy_that_changes_nothing_is_said_and_not_compared(
    tmp_path: Path, words: list[str], argument: str, sentences: list[str]
) -> None:
    (tmp_path / "train.py").write_text(NOTHING)
    done = run_advise(tmp_path, "--verify", *words, "--json", "--", "train.py", argument)
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
    done = run_advise(tmp_path, "--verify=foreach_off", "--", "train.py")
    assert done.returncode == 128 + signal.SIGTERM
    assert "with foreach_off ended with signal SIGTERM" in done.stderr


def test_a_module_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(NOTHING)
    done = run_advise(tmp_path, "--verify", "fused", "-m", "package.train", "step")
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
    done = run_advise(tmp_path, "--verify", "checkpointing", "--json", "--", "train.py")
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
    done = run_advise(tmp_path, "--verify", "autocast_bf16", "--json", "--", "train.py")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["verified"]
    assert entry["applied"] == ["3 forward passes with their losses"]
