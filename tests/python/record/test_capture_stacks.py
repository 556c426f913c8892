"""Stacks of random programs, compared with what Python itself reports for each allocation."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")

Line = tuple[str, int]
ALLOCATIONS = 4000
DEEPEST = 25


class RandomProgram:
    """Calls itself via functions, generators, C functions and short-lived code, in any order.

    Every allocation has a unique size, by which it is found again.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: dict[int, list[Line]] = {}  # size → where it was allocated, innermost first
        self.last_size = 1000

    def run(self, seed: int) -> None:
        draw = random.Random(seed)
        while len(self.lines) < ALLOCATIONS:
            self.step(draw, 0)

    def allocate(self) -> None:
        with self.lock:
            self.last_size += 1
            size = self.last_size
        torch.empty(size, dtype=torch.uint8)
        self.lines[size] = callers()

    def step(self, draw: random.Random, depth: int) -> int:
        ways = (self.plainly, self.by_generator, self.by_map, self.by_comparison, self.by_new_code)
        for _ in range(draw.randrange(1, 3)):
            way = draw.randrange(8)
            if depth < DEEPEST and way < len(ways):
                ways[way](draw, depth + 1)
            else:
                self.allocate()
            if way == 7:
                self.allocate()
        return depth

    def plainly(self, draw: random.Random, depth: int) -> None:
        self.step(draw, depth)

    def by_generator(self, draw: random.Random, depth: int) -> None:
        def each() -> Iterator[int]:
            for _ in range(draw.randrange(1, 3)):
                yield self.step(draw, depth)

        for _ in each():
            pass

    def by_map(self, draw: random.Random, depth: int) -> None:
        list(map(lambda _: self.step(draw, depth), (0,)))  # noqa: C417 - C calls it

    def by_comparison(self, draw: random.Random, depth: int) -> None:
        program = self

        class Compared:
            def __lt__(self, other: object) -> bool:
                return program.step(draw, depth) < 0

        if depth < DEEPEST // 2:
            sorted([Compared(), Compared()])

    def by_new_code(self, draw: random.Random, depth: int) -> None:
        names: dict[str, Any] = {"step": self.step, "draw": draw, "depth": depth}
        source = "\n" * draw.randrange(30) + "def new_code():\n    step(draw, depth)\n"
        exec(source, names)
        names["new_code"]()


def callers() -> list[Line]:
    """Callers of the function that calls this one, whose own line has moved on since."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        # The frames that start a program are left out of its stacks.
        if "runpy" not in frame.f_code.co_filename:
            found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_every_stack_is_the_one_python_tells(tmp_path: Path, seed: int) -> None:
    program = RandomProgram()
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        threads = [threading.Thread(target=program.run, args=(10 * seed + n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        program.run(seed)
        for thread in threads:
            thread.join()
    recording = gpumemprof.load(recorded.path)
    events = pyarrow.table(recording.events).select(["action", "size_bytes", "stack"]).to_pylist()
    told = {
        event["size_bytes"]: event["stack"]
        for event in events
        if event["action"] == "alloc" and event["size_bytes"] in program.lines
    }
    assert len(told) == len(program.lines)
    for size, stack in told.items():
        innermost, *rest = recording.stack(stack)
        assert innermost.name.endswith("allocate")
        assert [(frame.name.split(".")[-1], frame.line) for frame in rest] == program.lines[size]
