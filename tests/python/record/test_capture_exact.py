"""A recording of CPU tensors equals what was allocated."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import gpumemprof
import pytest

torch = pytest.importorskip("torch")


def allocate(size: int) -> object:
    return torch.empty(size, dtype=torch.uint8)


def stacks_at_end(path: str) -> list[tuple[list[str], int]]:
    (device,) = gpumemprof.load(path).report(at="end")["devices"]
    return [
        ([frame["name"] for frame in group["stack"]], group["bytes"])
        for group in device["at"]["live"]
    ]


def test_counts_every_byte(tmp_path: Path) -> None:
    kept = []
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        for size in range(1000, 101_000, 1000):
            kept.append(allocate(size))
            allocate(500_000)
    (device,) = gpumemprof.load(recording.path).devices
    live = sum(range(1000, 101_000, 1000))
    assert device.device == "cpu:0"
    assert device.end.allocated_bytes == live
    assert device.peak.allocated_bytes == live + 500_000
    assert device.counters.allocations == 200
    assert device.counters.frees == 100
    assert device.exact_from_event == 0
    assert recording.summary["lost_events"] == 0
    assert recording.capture == "native"


def test_what_was_there_before_is_left_out(tmp_path: Path) -> None:
    before = allocate(1_000_000)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        after = allocate(1234)
        del before
    (device,) = gpumemprof.load(recording.path).devices
    assert device.end.allocated_bytes == 1234
    assert device.counters.frees == 0
    del after


def test_names_the_line_that_allocated(tmp_path: Path) -> None:
    def inner() -> object:
        return allocate(4321)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        kept = inner()
    ((names, size),) = stacks_at_end(recording.path)
    assert size == 4321
    assert [name.rpartition(".")[2] for name in names[:2]] == ["allocate", "inner"]
    assert any(name.endswith("test_names_the_line_that_allocated") for name in names)
    del kept


def test_a_reused_code_object_keeps_its_own_name(tmp_path: Path) -> None:
    """Functions created and dropped in a loop live at the same address, one after another."""
    kept = []
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        for number in range(200):
            names = {"torch": torch, "kept": kept}
            source = (
                f"def f{number}():\n kept.append(torch.empty({1000 + number}, dtype=torch.uint8))"
            )
            exec(compile(f"{source}\nf{number}()", f"<made {number}>", "exec"), names)
            names.clear()
            gc.collect(0)
    (device,) = gpumemprof.load(recording.path).report(at="end")["devices"]
    assert len(device["at"]["live"]) == 200
    for group in device["at"]["live"]:
        number = group["bytes"] - 1000
        frame = group["stack"][0]
        assert (frame["name"], frame["file"], frame["line"]) == (
            f"f{number}",
            f"<made {number}>",
            2,
        )


def test_an_exception_in_flight_survives(tmp_path: Path) -> None:
    class Raises:
        def __del__(self) -> None:
            allocate(1000)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True), pytest.raises(ValueError, match="mine"):
        holder = Raises()
        try:
            raise ValueError("mine")
        finally:
            del holder
            allocate(2000)


def test_every_thread_is_counted(tmp_path: Path) -> None:
    kept: list[object] = []

    def work(size: int) -> None:
        for _ in range(300):
            kept.append(allocate(size))
            allocate(10_000)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        threads = [threading.Thread(target=work, args=(1000 + index,)) for index in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (device,) = gpumemprof.load(recording.path).devices
    assert device.end.allocated_bytes == sum(300 * (1000 + index) for index in range(6))
    assert device.exact_from_event == 0
    assert device.counters.allocations == 6 * 600


def test_without_stacks(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True, stacks=False) as recording:
        kept = allocate(1000)
    assert stacks_at_end(recording.path) == [([], 1000)]
    del kept


def test_training_replays_without_contradiction(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    optimizer = torch.optim.Adam(model.parameters())
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        for _ in range(20):
            gpumemprof.step()
            model(torch.randn(16, 64)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    (device,) = gpumemprof.load(recording.path).devices
    assert device.exact_from_event == 0
    assert device.end.allocated_bytes == recording.summary["devices"][0]["requested_bytes"]
    assert device.peak.allocated_bytes == recording.summary["devices"][0]["peak_requested_bytes"]
