"""Advice for small runs recorded here, against recordings of the same runs with the remedy."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional


class Residual(nn.Module):
    """Its last operation is on an earlier line than its first, and not all begin the same way."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.short = nn.Identity() if inputs == width else nn.Conv2d(inputs, width, 1)

    def forward(self, x: Any) -> Any:
        return functional.relu(
            self.short(x) + self.second(functional.relu(self.first(x))),
        )


class Attending(nn.Module):
    """Dropout inside attention, for which the CPU has no fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.attention = nn.MultiheadAttention(32, 4, dropout=0.1, batch_first=True)
        self.head = nn.Linear(32, 32)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        return self.head(self.attention(x, x, x, need_weights=False)[0])


def record(path: Path, work: Callable[[], None]) -> gpumemprof.Recording:
    gc.collect()
    with gpumemprof.record(path, cpu=True):
        work()
    gc.collect()
    return gpumemprof.load(path)


def train_images(recompute: bool, zeroes_in_place: bool = False) -> None:
    widths = [16, 16, 16, 32, 32, 32]
    blocks = nn.ModuleList(Residual(a, b) for a, b in zip([16, *widths], widths))
    optimizer = torch.optim.AdamW(blocks.parameters(), foreach=True)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = blocks

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                if recompute:
                    x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
                else:
                    x = block(x)
            return x

    model = Model()
    for _ in range(3):
        model(torch.randn(4, 16, 24, 24)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not zeroes_in_place)


def train_tokens(length: int, dtype: Any = torch.float32) -> None:
    model = Attending().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randint(50, (4, length))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def remedy(recording: gpumemprof.Recording, name: str, **options: Any) -> dict[str, Any]:
    entries = recording.advise(**options)["remedies"]
    return next(entry for entry in entries if entry["name"] == name)


def peak(recording: gpumemprof.Recording) -> int:
    return recording.devices[0].peak.allocated_bytes


def test_blocks_that_end_above_their_beginning_are_told_apart(tmp_path: Path) -> None:
    plain = record(tmp_path / "plain.gmp", lambda: train_images(recompute=False))
    truth = record(tmp_path / "checkpointed.gmp", lambda: train_images(recompute=True))
    entry = remedy(plain, "checkpointing")
    assert entry["why"].startswith("6 blocks")
    assert entry["predicted_peak_allocated_bytes"] == pytest.approx(peak(truth), rel=0.03)


def test_gradients_zeroed_in_place_are_seen_and_their_cost_is_exact(tmp_path: Path) -> None:
    kept = record(tmp_path / "kept.gmp", lambda: train_images(False, zeroes_in_place=True))
    truth = record(tmp_path / "dropped.gmp", lambda: train_images(False))
    entry = remedy(kept, "zero_grad_to_none")
    assert entry["predicted_peak_allocated_bytes"] == pytest.approx(peak(truth), rel=0.005)


def test_attention_without_a_fused_kernel_grows_with_the_square(tmp_path: Path) -> None:
    plain = record(tmp_path / "short.gmp", lambda: train_tokens(48))
    longer = record(tmp_path / "long.gmp", lambda: train_tokens(96))
    entry = remedy(plain, "sequence_x2")
    assert "square" in entry["why"]
    assert entry["predicted_peak_allocated_bytes"] == pytest.approx(peak(longer), rel=0.02)
    measured = remedy(plain, "sequence_x2", other=longer)
    assert "measured" in measured["why"]
    assert measured["predicted_peak_allocated_bytes"] == pytest.approx(peak(longer), rel=0.005)


@pytest.mark.parametrize("length", [8, 40])
def test_attention_that_is_written_out_stays_fp32_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """With 8 tokens and heads of size 8 the scores are as large as the result."""
    # Scratch memory of oneDNN's half precision depends on the processor and on its threads.
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    plain = record(tmp_path / "plain.gmp", lambda: train_tokens(length))
    truth = record(tmp_path / "half.gmp", lambda: train_tokens(length, torch.bfloat16))
    band = remedy(plain, "pure_bf16")["predicted_peak_allocated_band"]
    assert band["low_bytes"] <= peak(truth) <= band["high_bytes"]


def test_a_fit_names_the_modules_it_checkpoints(tmp_path: Path) -> None:
    recording = record(tmp_path / "plain.gmp", lambda: train_images(recompute=False))
    # Which sets are cheapest depends on how long the phases took here, so several limits are tried.
    fits = [recording.advise(fit=peak(recording) * tenths // 10)["fit"] for tenths in range(3, 10)]
    sets = [entry for fit in fits for entry in [fit, *fit["alternatives"]]]
    named = [entry["checkpointing"] for entry in sets if entry["checkpointing"] is not None]
    assert named
    for blocks in named:
        assert blocks["modules"] == [f"blocks.{number}" for number in blocks["which"]]
        assert "model.blocks" in blocks["how"]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Ends with layers that are in no block."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 100)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("layers", [2, 4])
def test_the_code_for_checkpointing_names_the_blocks_alone(tmp_path: Path, layers: int) -> None:
    def train() -> None:
        model = Stack(layers)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            model(torch.randn(16, 8, 64)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    advice = record(tmp_path / "run.gmp", train).advise()
    (found,) = (each for each in advice["remedies"] if each["name"] == "checkpointing")
    assert "for block in model.layers:" in found["how"]


def test_a_step_that_allocates_nothing_is_left_alone(tmp_path: Path) -> None:
    def train() -> None:
        model = nn.Linear(256, 256)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.randn(8, 256)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    advice = record(tmp_path / "run.gmp", train).advise()
    for name in ("fused", "foreach_off"):
        (found,) = (each for each in advice["remedies"] if each["name"] == name)
        assert found["predicted_peak_allocated_bytes"] is None
        assert "allocates nothing beside its state" in found["why"]
        assert "AdamW" not in found["how"]
