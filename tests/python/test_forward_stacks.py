"""Memory allocated in backward knows the forward line it serves."""

from __future__ import annotations

import threading
from pathlib import Path

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")


def forward_lines(path: str) -> dict[int, set[str]]:
    """Requested bytes of what was allocated in backward → functions and lines of its forward."""
    recording = gpumemprof.load(path)
    lines: dict[int, set[str]] = {}
    for event in pyarrow.table(recording.events).to_pylist():
        if event["action"] == "alloc" and event["forward_stack"] is not None:
            innermost = recording.stack(event["forward_stack"])
            names = {frame.name.split(".")[-1] for frame in innermost}
            lines.setdefault(event["size_bytes"], set()).update(names)
    return lines


def first_op(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


def second_op(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def custom_op(x: torch.Tensor) -> torch.Tensor:
    return Doubled.apply(x)


def gradient_of(op: object, size: int) -> None:
    x = torch.ones(size, requires_grad=True)
    y = op(x)  # type: ignore[operator]
    y.backward(torch.ones(size))


def test_each_gradient_names_its_own_forward_op(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        gradient_of(first_op, 1000)
        gradient_of(second_op, 2000)
        gradient_of(custom_op, 3000)
    lines = forward_lines(recording.path)
    assert "first_op" in lines[4000] and "second_op" not in lines[4000]
    assert "second_op" in lines[8000] and "first_op" not in lines[8000]
    assert "custom_op" in lines[12000] and "first_op" not in lines[12000]


def test_forward_memory_has_no_forward_stack(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        kept = first_op(torch.ones(1000, requires_grad=True))
        after_backward = [gradient_of(second_op, 50), torch.ones(777)]
    lines = forward_lines(recording.path)
    assert 4000 not in lines
    assert 777 * 4 not in lines
    del kept, after_backward


def test_a_backward_inside_a_backward_names_both(tmp_path: Path) -> None:
    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                gradient_of(second_op, 5000)
            return grad * 3

    def nested_op(x: torch.Tensor) -> torch.Tensor:
        return Nested.apply(x)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        gradient_of(nested_op, 6000)
    lines = forward_lines(recording.path)
    assert "second_op" in lines[20000]
    assert "nested_op" in lines[24000] and "second_op" not in lines[24000]


def test_threads_that_count_alike_are_kept_apart(tmp_path: Path) -> None:
    ops = {1100: first_op, 2100: second_op}

    def work(size: int) -> None:
        for _ in range(20):
            gradient_of(ops[size], size)

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        threads = [threading.Thread(target=work, args=(size,)) for size in ops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = forward_lines(recording.path)
    assert "first_op" in lines[4400] and "second_op" not in lines[4400]
    assert "second_op" in lines[8400] and "first_op" not in lines[8400]


def test_a_graph_made_before_the_recording_has_none(tmp_path: Path) -> None:
    x = torch.ones(900, requires_grad=True)
    y = first_op(x)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        y.backward(torch.ones(900))
    assert forward_lines(recording.path) == {}


def test_the_file_says_that_forward_stacks_are_on(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        torch.ones(3)
    facts = gpumemprof.load(recording.path).report()["input"]["facts"]
    assert facts["forward_stacks"] == "on"


def test_is_off_without_stacks(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True, stacks=False) as recording:
        gradient_of(first_op, 1000)
    assert forward_lines(recording.path) == {}
