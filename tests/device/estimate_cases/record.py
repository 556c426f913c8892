"""Record every op of a piece of code with the allocations that it makes on the GPU."""

from __future__ import annotations

import json
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SHORT = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def describe_tensor(tensor: torch.Tensor) -> str:
    """For example "bf16[8,64]", with "{strides}" and "@offset" where they are not the default."""
    text = SHORT.get(tensor.dtype, str(tensor.dtype)) + str(list(tensor.shape)).replace(" ", "")
    if tensor.layout == torch.sparse_coo:
        is_sorted = "sorted" if tensor.is_coalesced() else "unsorted"
        return f"{tensor.layout}:{text}#{tensor._nnz()} {is_sorted}"
    if tensor.layout != torch.strided:
        return f"{tensor.layout}:{text}#{tensor._nnz()}"
    if not tensor.is_contiguous():
        text += "{" + ",".join(map(str, tensor.stride())) + "}"
    if tensor.storage_offset():
        text += f"@{tensor.storage_offset()}"
    return text if tensor.is_cuda else "cpu:" + text


def describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {key: describe(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def event_count() -> int:
    """How many allocations and frees the allocator has served since the process started."""
    if not torch.cuda.is_available():
        return 0
    counts = torch._C._cuda_memoryStats(torch.cuda.current_device())["allocation"]["all"]
    return counts["allocated"] + counts["freed"]


def start_history() -> None:
    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(
            enabled="all", context=None, max_entries=1_000_000, clear_history=True
        )


def history() -> list[tuple[str, int, int]]:
    """(action, address, bytes asked for) of each allocation and free since start_history."""
    if not torch.cuda.is_available():
        return []
    entries = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    wanted = ("alloc", "free_requested")
    return [(e["action"], e["addr"], e["size"]) for e in entries if e["action"] in wanted]


def encode(events: list[tuple[str, int, int]]) -> list[int | None]:
    """+bytes: an allocation; -(k + 1): the k-th allocation is freed; None: an older block is."""
    seen: dict[int, int] = {}
    encoded: list[int | None] = []
    count = 0
    for action, address, size in events:
        if action == "alloc":
            seen[address] = count
            count += 1
            encoded.append(size)
        else:
            index = seen.pop(address, None)
            encoded.append(None if index is None else -(index + 1))
    return encoded


class OpRecorder(TorchDispatchMode):
    """Remembers each op: name, description of arguments and results, range of allocator events."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any, Any, Any, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        described = describe(args), describe(kwargs)
        before = event_count()
        out = func(*args, **kwargs)
        after = event_count()
        self.calls.append((str(func), *described, describe(out), before, after))
        return out


class Table:
    """Distinct op calls, each with the event lists seen for it, and the cases that made them."""

    def __init__(self) -> None:
        self.ops: list[list[Any]] = []
        self.cases: list[list[Any]] = []
        self.errors: dict[str, str] = {}
        self._index: dict[str, int] = {}

    def run(self, name: str, setup: Callable[[], Callable[[], Any]]) -> None:
        """Record the case: setup() prepares the inputs, what it returns is recorded."""
        recorder = OpRecorder()
        try:
            body = setup()
            start_history()
            first = event_count()
            with recorder:
                kept = body()
            last = event_count()
            events = history()
            del kept
        except Exception as error:  # a case that this build refuses is a result, too
            self.errors[name] = f"{type(error).__name__}: {error}"[:200]
            return
        used = []
        for op, args, kwargs, out, before, after in recorder.calls:
            inside = encode(events[before - first : after - first])
            if inside or "attention" in op or not torch.cuda.is_available():
                used.append(self._add(op, args, kwargs, out, inside))
        # Ops of other threads are not heard: then the case keeps all its events itself.
        unheard = [call for call in events if not recorder.calls or len(events) <= 40]
        self.cases.append([name, used, len(events), last - first, encode(unheard)])

    def _add(self, op: str, args: Any, kwargs: Any, out: Any, events: list[int | None]) -> int:
        key = json.dumps([op, args, kwargs])
        index = self._index.setdefault(key, len(self.ops))
        if index == len(self.ops):
            self.ops.append([op, args, kwargs, []])
        variants = self.ops[index][3]
        for variant in variants:
            if variant[0] == events and variant[1] == out:
                variant[2] += 1
                return index
        if len(variants) < 4:
            variants.append([events, out, 1])
        return index
