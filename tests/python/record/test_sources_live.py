"""Scripts of every kind, recorded live: sources equal what the tensors hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import pytest
from benchmarks import benchmark

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")


def storage_bytes(tensors: Any) -> int:
    storages = [t.untyped_storage() for t in tensors if torch.is_tensor(t)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


Mark = Callable[..., None]


class Weighted(torch.nn.Module):
    """Weights and a buffer created by the user."""

    def __init__(self, width: int = 300) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width))
        self.register_buffer("mask", torch.ones(width // 2, width))

    def forward(self, x: Any) -> Any:
        return torch.tanh(x @ self.weight)


def model_of_the_users(mark: Mark) -> None:
    model = torch.nn.Sequential(Weighted(), torch.nn.Linear(300, 300), Weighted())
    optimizer = torch.optim.RMSprop(model.parameters(), momentum=0.9)
    for _ in range(3):
        x = torch.randn(100, 300)
        model(x).square().mean().backward()
        mark(model, [p.grad for p in model.parameters()], optimizer)
        optimizer.step()
        optimizer.zero_grad()
        mark(model, [], optimizer)


def no_module_at_all(mark: Mark) -> None:
    weights = [torch.randn(300, 300, requires_grad=True) for _ in range(3)]
    for _ in range(3):
        x = torch.randn(100, 300)
        for weight in weights:
            x = torch.tanh(x @ weight)
        gradients = torch.autograd.grad(x.square().mean(), weights)
        mark(weights, gradients, None)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                weight.sub_(gradient, alpha=0.1)
        del x, gradients, gradient


def step_with_a_closure(mark: Mark) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 300))
    optimizer = torch.optim.AdamW(model.parameters())

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        x = torch.randn(100, 300)
        optimizer.step(closure)
        mark(model, [p.grad for p in model.parameters()], optimizer)


def zeroing_that_keeps(mark: Mark) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 300))
    optimizer = torch.optim.Adagrad(model.parameters())
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(2):
            model(torch.randn(100, 300)).square().mean().backward()
        optimizer.step()
        mark(model, [p.grad for p in model.parameters()], optimizer)


@pytest.mark.parametrize(
    "train", [model_of_the_users, no_module_at_all, step_with_a_closure, zeroing_that_keeps]
)
def test_any_script_is_read_alike(train: Callable[[Mark], None], tmp_path: Path) -> None:
    truth: list[dict[str, int]] = []

    def mark(model: Any, gradients: Any, optimizer: Any) -> None:
        is_module = isinstance(model, torch.nn.Module)
        weights = [*model.parameters(), *model.buffers()] if is_module else model
        states = [] if optimizer is None else optimizer.state.values()
        size = 777001 + 2 * len(truth)
        truth.append(
            {
                "size": size,
                "parameters": storage_bytes(weights),
                "gradients": storage_bytes(gradients),
                "optimizer_state": storage_bytes([v for s in states for v in s.values()]),
            }
        )
        torch.empty(size, dtype=torch.uint8)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        train(mark)
    lives = benchmark("source_accuracy").lives_of(gpumemprof.load(tmp_path / "run.gmp"))
    assert truth
    for moment in truth:
        (row,) = np.flatnonzero(lives.requested == moment["size"])
        for source in ("parameters", "gradients", "optimizer_state"):
            assert lives.held(int(lives.birth[row]) - 1, source) == moment[source], source


class Accelerator:
    """Scales the loss before backward, as optimizer wrappers do."""

    def backward(self, loss: Any) -> None:
        (loss / 1.0).backward()


def test_one_inferred_block_does_not_make_labelled_sources_inferred(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        model = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 1))
        # Replaced before the first step: no label ever names the first weight.
        model[1].weight = torch.nn.Parameter(torch.randn(1, 400))
        optimizer = torch.optim.AdamW(model.parameters())
        total = torch.tensor(0.0)  # as large as a bias, and kept
        for _ in range(3):
            loss = model(torch.randn(100, 300)).square().mean()
            Accelerator().backward(loss)
            total += loss.detach()
            optimizer.step()
            optimizer.zero_grad()
    (device,) = gpumemprof.load(tmp_path / "run.gmp").report()["devices"]
    for source in ("parameters", "gradients", "optimizer_state"):
        assert device["sources"][source]["provenance"] == "measured", source


@pytest.mark.parametrize("is_late", [False, True])
def test_a_model_that_is_older_than_a_recording_of_the_cpu_is_said_to_be_missing(
    tmp_path: Path, is_late: bool
) -> None:
    program = """
import sys, torch, gpumemprof
model = torch.nn.Linear(512, 512) if sys.argv[2] == "True" else None
with gpumemprof.record(sys.argv[1], cpu=True):
    model = model or torch.nn.Linear(512, 512)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.randn(8, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    path = tmp_path / "run.gmp"
    subprocess.run([sys.executable, "-c", program, str(path), str(is_late)], check=True)
    words = " ".join(gpumemprof.load(path).to_text().split())
    assert ("The model is older than the recording" in words) == is_late
