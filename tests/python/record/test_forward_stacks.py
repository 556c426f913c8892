"""Memory allocated in backward is attributed to the forward line it serves."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import urllib.request
from pathlib import Path

import gpumemprof
import pytest
from conftest import Command
from made_up import MadeUpDevice, snapshot_of

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")


def forward_lines(path: str, column: str = "forward_stack") -> dict[int, set[str]]:
    """Requested bytes of what was allocated in backward → functions and lines of its forward."""
    recording = gpumemprof.load(path)
    lines: dict[int, set[str]] = {}
    for event in pyarrow.table(recording.events).to_pylist():
        if event["action"] == "alloc" and event[column] is not None:
            innermost = recording.stack(event[column])
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
    lines = forward_lines(recording.path)
    assert "first_op" in lines[4000] and "second_op" not in lines[4000]
    assert "second_op" in lines[8000] and "first_op" not in lines[8000]


def test_what_a_backward_of_the_program_allocates_has_its_own_line(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        gradient_of(custom_op, 3000)
    assert 12000 not in forward_lines(recording.path)
    assert "backward" in forward_lines(recording.path, "stack")[12000]


def test_forward_memory_has_no_forward_stack(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        kept = first_op(torch.ones(1000, requires_grad=True))
        after_backward = [gradient_of(second_op, 50), torch.ones(777)]
    lines = forward_lines(recording.path)
    assert 4000 not in lines
    assert 777 * 4 not in lines
    del kept, after_backward


def test_a_backward_inside_a_backward_names_its_own_forward(tmp_path: Path) -> None:
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
    assert "second_op" in lines[20000] and "nested_op" not in lines[20000]


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


def widened(size: int) -> torch.Tensor:
    """A node that allocates no memory, but its gradient does: `size` floats."""
    return WIDE[size].expand(3, size)


WIDE = {size: torch.ones(1, size, requires_grad=True) for size in (1100, 2100, 3100, 4100)}
GRADIENTS = {size: torch.ones(3, size) for size in WIDE}


def made_by_one() -> torch.Tensor:
    return widened(1100)


def made_by_another() -> torch.Tensor:
    return widened(2100)


def run_backward(*nodes: torch.Tensor) -> None:
    torch.autograd.backward(nodes, [GRADIENTS[node.shape[1]] for node in nodes])


def test_nodes_made_by_one_function_are_told_by_its_callers(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        run_backward(made_by_one(), made_by_another())
        both = [widened(size) for size in (3100, 4100)]
        run_backward(*both)
    lines = forward_lines(recording.path)
    assert "made_by_one" in lines[4400] and "made_by_another" not in lines[4400]
    assert "made_by_another" in lines[8400] and "made_by_one" not in lines[8400]
    assert "widened" in lines[12400] & lines[16400]
    assert not {"made_by_one", "made_by_another"} & (lines[12400] | lines[16400])


@pytest.mark.parametrize("ends", [True, False])
def test_nodes_of_a_thread_that_does_nothing_more_are_told(tmp_path: Path, ends: bool) -> None:
    made: list[torch.Tensor] = []
    is_made, may_end = threading.Event(), threading.Event()

    def work() -> None:
        made.append(made_by_one())
        made.append(made_by_another())
        is_made.set()
        if not ends:
            may_end.wait()

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        thread = threading.Thread(target=work)
        thread.start()
        is_made.wait()
        if ends:
            thread.join()
        run_backward(*made)
        may_end.set()
        thread.join()
    lines = forward_lines(recording.path)
    assert "made_by_one" in lines[4400] and "made_by_another" in lines[8400]


def test_nodes_made_between_two_recordings_have_none(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "first.gmp", cpu=True):
        made = [made_by_one()]
    made.append(made_by_another())
    with gpumemprof.record(tmp_path / "second.gmp", cpu=True) as recording:
        run_backward(made[1])
    assert 8400 not in forward_lines(recording.path)


def test_the_file_says_that_forward_stacks_are_on(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        torch.ones(3)
    facts = gpumemprof.load(recording.path).report()["input"]["facts"]
    assert facts["forward_stacks"] == "on"


def test_is_off_without_stacks(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True, stacks=False) as recording:
        gradient_of(first_op, 1000)
    assert forward_lines(recording.path) == {}


def traceback_of_forward() -> list[str]:
    """As anomaly mode captures it where a forward operation is called."""
    return traceback.format_stack()


def made_up_forward() -> list[str]:
    return traceback_of_forward()


@pytest.fixture
def snapshot_with_forward_frames(tmp_path: Path) -> tuple[Path, list[str]]:
    """A snapshot as torch 2.11 and later write it in anomaly mode, and the lines it contains."""
    device = MadeUpDevice(0)
    training = [{"name": "train", "filename": "/train/main.py", "line": 7}]
    device.allocate(1 << 20, training)
    device.allocate(24 << 20, [])  # autograd's threads run no Python
    lines = made_up_forward()
    device.trace[-1]["forward_frames"] = lines
    path = tmp_path / "anomaly.pickle"
    path.write_bytes(pickle.dumps(snapshot_of([device])))
    return path, lines


def test_forward_frames_of_a_snapshot_are_the_forward_stack(
    snapshot_with_forward_frames: tuple[Path, list[str]],
) -> None:
    path, lines = snapshot_with_forward_frames
    recording = gpumemprof.load(path)
    events = pyarrow.table(recording.events).to_pylist()
    told = [event for event in events if event["forward_stack"] is not None]
    assert [(event["action"], event["size_bytes"]) for event in told] == [("alloc", 24 << 20)]
    frames = recording.stack(told[0]["forward_stack"])
    assert [frame.name for frame in frames[:2]] == ["traceback_of_forward", "made_up_forward"]
    assert {frame.file for frame in frames[:2]} == {__file__}
    formatted = [
        f'  File "{frame.file}", line {frame.line}, in {frame.name}' for frame in reversed(frames)
    ]
    assert formatted == [line.splitlines()[0] for line in lines]


def test_a_report_names_the_forward_line_of_a_snapshot(
    snapshot_with_forward_frames: tuple[Path, list[str]], command: Command
) -> None:
    path, _ = snapshot_with_forward_frames
    printed = command("report", path).stdout
    assert "backward of " in printed
    assert "backward of test_forward_stacks.py:" in printed


def test_forward_frames_survive_conversion_both_ways(
    snapshot_with_forward_frames: tuple[Path, list[str]], command: Command, tmp_path: Path
) -> None:
    path, lines = snapshot_with_forward_frames
    trace, again = tmp_path / "run.gmp", tmp_path / "again.pickle"
    assert command("convert", path, "--to", "gmp", trace).returncode == 0
    assert command("convert", trace, "--to", "torch-snapshot", again).returncode == 0
    events = pickle.loads(again.read_bytes())["device_traces"][0]
    assert ["forward_frames" in event for event in events] == [False, False, False, True]
    # Everything after the first line of each is dropped.
    assert events[-1]["forward_frames"] == [line.splitlines()[0] + "\n" for line in lines]
    direct = tmp_path / "direct.pickle"
    assert command("convert", path, "--to", "torch-snapshot", direct).returncode == 0
    assert pickle.loads(direct.read_bytes())["device_traces"][0] == events


def test_the_viewer_is_told_the_forward_stack_of_a_snapshot(
    snapshot_with_forward_frames: tuple[Path, list[str]],
) -> None:
    path, lines = snapshot_with_forward_frames
    words = [sys.executable, "-m", "gpumemprof", "view", "--no-browser", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            page, token = viewer.stdout.readline().split()[-1].split("?")
            asked = f"{page}api/allocation?file=0&device=0&row=1&{token}"
            with urllib.request.urlopen(asked, timeout=30) as answer:
                told = json.load(answer)
        finally:
            viewer.send_signal(signal.SIGINT)
    names = [line.splitlines()[0].rpartition(" in ")[2] for line in reversed(lines)]
    assert [name for name, *_ in told["forward_frames"]] == names
