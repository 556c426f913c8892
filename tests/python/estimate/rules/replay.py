"""Run the rules on recorded calls of operations, and compare what they allocate.

A recorded call is [operation, arguments, keyword arguments, events, results]. Tensors are written
as "bf16[8,64]{64,1}@0": type, sizes, strides where they are not the default, and offset. An event
is the size of an allocation, or -(k + 1): the k-th allocation of the call is freed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules import load_rules
from gpumemprof.estimate.rules.table import Call, CompiledRule, compile_rules
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "b8": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}
TENSOR = re.compile(
    r"(cpu:)?([\w.]+)\[([\d,]*)\](?:\{([\d,]*)\})?(?:@(\d+))?$",
)
H200 = find_card("h200")


class LoggedMemory:
    """Writes down allocations and frees; never full."""

    allocated_bytes = reserved_bytes = peak_allocated_bytes = peak_reserved_bytes = 0

    def __init__(self) -> None:
        self.events: list[int] = []
        self.count = 0
        self.emptied = 0

    def allocate(self, size: int, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> int:
        self.events.append(size)
        self.count += 1
        return self.count

    def free(self, address: int) -> None:
        self.events.append(-address)

    def empty_cache(self) -> None:
        self.emptied += 1

    def statistics(self) -> dict[str, int]:
        return {}

    def reset_peaks(self) -> None: ...

    def set_limit(self, limit_bytes: int) -> None: ...


class Replay:
    """Recorded calls on an H200 with the torch that recorded them."""

    def __init__(self, torch_version: tuple[int, int] = (2, 11)) -> None:
        load_rules()
        fake_tensor.init_gpu_context = lambda *_: None
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.torch_version = torch_version
        self.rules = compile_rules(self.device(LoggedMemory()))

    def device(self, memory: LoggedMemory, capability: tuple[int, int] = (9, 0)) -> Device:
        card = replace(H200, capability=capability)
        return Device(card, memory, torch_version=self.torch_version)

    def tensor(self, text: str) -> Any:
        match = TENSOR.match(text)
        if match is None:
            return text
        where, dtype, sizes, strides, offset = match.groups()
        if dtype not in DTYPES and not hasattr(torch, dtype.replace("torch.", "")):
            return text
        kept = DTYPES[dtype] if dtype in DTYPES else getattr(torch, dtype.replace("torch.", ""))
        shape = [int(size) for size in sizes.split(",")] if sizes else []
        steps = [int(step) for step in strides.split(",")] if strides else None
        if steps is None:
            meta = torch.empty(shape, dtype=kept, device="meta")
        else:
            meta = torch.empty_strided(shape, steps, dtype=kept, device="meta")
        if offset:
            flat = torch.empty(meta.untyped_storage().nbytes() + int(offset) * meta.element_size(),
                               dtype=torch.uint8, device="meta").untyped_storage()  # fmt: skip
            meta = torch.empty(0, dtype=kept, device="meta").set_(
                flat, int(offset), meta.size(), meta.stride()
            )
        return FakeTensor(self.mode, meta, torch.device("cpu" if where else "cuda:0"))

    def value(self, recorded: Any) -> Any:
        if isinstance(recorded, str):
            if recorded.startswith("torch.") and "[" not in recorded:
                return getattr(torch, recorded[6:], recorded)
            return self.tensor(recorded)
        if isinstance(recorded, list):
            values = [self.value(item) for item in recorded]
            return _in_one_storage(values) if _are_parts(values) else values
        if isinstance(recorded, dict):
            return {key: self.value(item) for key, item in recorded.items()}
        return recorded

    def has(self, operation: str) -> bool:
        """Whether this release of torch has it."""
        namespace, name, _ = operation.split(".")
        return hasattr(getattr(torch.ops, namespace), name)

    def events(self, operation: str, args: Any, kwargs: Any, results: Any) -> list[int]:
        """What the rules, or else the births of the results, allocate and free."""
        memory = LoggedMemory()
        self.run_on(self.device(memory), operation, args, kwargs, results)
        return list(memory.events)

    def run_on(self, device: Device, operation: str, args: Any, kwargs: Any, results: Any) -> None:
        namespace, name, overload = operation.split(".")
        func = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        short = func._schema.name.replace("aten::", "")
        call = Call(func, short, self.value(args), self.value(kwargs))
        self.kept = self.value(results)  # results that die are freed
        self.run(device, call, self.kept, self.rules.get(short))

    def run(self, device: Device, call: Call, outputs: Any, rule: CompiledRule | None) -> None:
        returns = call.func._schema.returns
        is_in_place = bool(returns) and all(
            each.alias_info is not None and each.alias_info.is_write for each in returns
        )
        for before in rule.before if rule else ():
            before(device, call)
        if rule and rule.births:
            rule.births(device, call, outputs)
        elif not is_in_place:
            device.births(outputs, call.name)
        for after in rule.after if rule else ():
            after(device, call, outputs)


def _are_parts(values: list[Any]) -> bool:
    """Whether the tensors fill one buffer, as the gradients of cuDNN do."""
    if len(values) < 2 or not all(isinstance(value, torch.Tensor) for value in values):
        return False
    start = 0
    for value in sorted(values, key=torch.Tensor.storage_offset):
        if value.storage_offset() != start:
            return False
        start += value.numel()
    return True


def _in_one_storage(values: list[torch.Tensor]) -> list[torch.Tensor]:
    whole = max(values, key=torch.Tensor.storage_offset)
    return [whole.as_strided(each.shape, each.stride(), each.storage_offset()) for each in values]
