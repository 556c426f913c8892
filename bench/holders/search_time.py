"""The CPU time of a search for holders, with a million Python objects and with many graphs.

python bench/holders/search_time.py [OBJECTS]; prints a line of JSON for each case. The bar is 1 s.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any, Callable

import torch
from gpumemprof.holders.search import find_holders


class _Entry:
    def __init__(self, value: Any) -> None:
        self.value = value


def _objects(count: int) -> list[Any]:
    """As a program has them: small dicts, lists and instances that refer to each other."""
    made: list[Any] = []
    while len(made) < count:
        made += [{"a": made[-1:] or None, "b": 1}, [1, 2, made[-2:]], _Entry(made[-1:])]
    return made


def _places(tensors: list[Any]) -> list[tuple[int, int]]:
    return [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]


def _measure(name: str, places: list[tuple[int, int]], objects: int) -> None:
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        found = find_holders(places)
        seconds.append(time.process_time() - begin)
    row = {
        "case": name,
        "gc_objects": len(gc.get_objects()),
        "cpu_s": round(min(seconds), 3),
        "worst_cpu_s": round(max(seconds), 3),
        "held": found.held_blocks,
        "looked_at": found.blocks,
        "is_whole": found.is_whole,
        "text": found.text(),
    }
    print(json.dumps(row, ensure_ascii=False), flush=True)


def _in_a_list() -> tuple[list[Any], Any]:
    kept = [torch.zeros(16) for _ in range(500)]
    return kept, kept


def _in_instances() -> tuple[list[Any], Any]:
    tensors = [torch.zeros(16) for _ in range(500)]
    return tensors, [[_Entry({"loss": [tensor]})] for tensor in tensors]


def _in_graphs() -> tuple[list[Any], Any]:
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(20)])
    batches = [torch.randn(4, 16) for _ in range(300)]
    return batches, [model(batch).mean() for batch in batches]


def _in_arrays() -> tuple[list[Any], Any]:
    """Known to no garbage collector: every container is read for them."""
    tensors = [torch.zeros(16) for _ in range(500)]
    return tensors, {"frames": [tensor.numpy() for tensor in tensors]}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    others = _objects(count * 2 // 5)  # each comes with lists of its own
    cases: list[Callable[[], tuple[list[Any], Any]]] = [
        _in_a_list,
        _in_instances,
        _in_graphs,
        _in_arrays,
    ]
    for case in cases:
        tensors, holder = case()
        places = _places(tensors)
        if holder is not tensors:
            tensors.clear()
        del tensors
        _measure(case.__name__.lstrip("_"), places, count)
        del holder
    del others
    return 0


if __name__ == "__main__":
    sys.exit(main())
