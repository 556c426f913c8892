"""The simulated device: the engine and the rules allocate and free memory only through it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Callable, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.engine.assumptions import Assumptions, Kind
from gpumemprof.estimate.engine.certainty import Certainty
from gpumemprof.estimate.engine.doubt import Doubt
from gpumemprof.estimate.engine.failures import no_such_card
from gpumemprof.estimate.engine.garbage.pace import CollectionsPace

__all__ = ["Device", "Memory", "torch_release"]


# Fewer rows matter little, and many tensors have as many by chance.
_LEAST_ASSUMED_SIZE = 64


class Memory(Protocol):
    """A simulated caching allocator of one device."""

    @property
    def allocated_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def peak_allocated_bytes(self) -> int:
        """Since `reset_peaks`."""

    @property
    def peak_reserved_bytes(self) -> int:
        """Since `reset_peaks`."""

    @property
    def most_allocated_bytes(self) -> int:
        """Since the beginning."""

    @property
    def most_reserved_bytes(self) -> int:
        """Since the beginning."""

    @property
    def most_reserved_range(self) -> tuple[int, int]:
        """The same with segments in other orders: the lowest and the highest."""

    def allocate(
        self, size_bytes: int, stream: int = 0, pool: tuple[int, int] = (0, 0)
    ) -> int | None: ...
    def free(self, address: int) -> bool: ...
    def empty_cache(self) -> None: ...
    def release_pool(self, pool: tuple[int, int]) -> None: ...
    def empty_pool(self, pool: tuple[int, int]) -> None: ...
    def statistics(self) -> dict[str, int]: ...
    def reset_peaks(self) -> None: ...
    def limit_fraction(self, fraction: float) -> None: ...


def torch_release() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


class Device:
    """The memory of one simulated card.

    A storage is allocated when the engine first sees it (`births`) and freed when torch destroys
    it. What a kernel allocates for itself is `temporary` or `held`; `persistent` memory is
    allocated once.
    """

    def __init__(
        self,
        card: Card,
        memory: Memory,
        assumptions: Assumptions | None = None,
        torch_version: tuple[int, int] | None = None,
        index: int = 0,
        count: int = 1,
    ) -> None:
        self.card = card
        self.memory = memory
        self.assumptions = Assumptions() if assumptions is None else assumptions
        self.torch_version = torch_version or torch_release()
        self.index = 0  # the program's current device
        self.own_index = index  # the card of this process; the other ones belong to other ranks
        self.count = count
        self.limit_bytes = card.total_bytes - card.context_bytes
        self.stream = 0  # the current stream of the program, and the pool of a captured graph
        self.pool = (0, 0)
        self.certainty: Certainty = "exact"  # of the rule that is running
        self.doubt = Doubt()
        # For tests and comparisons: called with address, size and operation of each allocation.
        self.on_allocation: Callable[[int, int, str], None] | None = None
        self._lock = threading.RLock()  # a storage can die in any thread
        self._assumed_sizes: dict[int, Certainty] = {}
        # By storage: its address, and how many had been born before it.
        self._live: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self.births_so_far = 0
        self.pace = CollectionsPace()
        self._persistent: dict[object, int] = {}
        self._adds_in_place = False
        self.first_out_of_memory = ""
        self._is_closed = False
        self.is_without_memory = False

    # Memory

    def allocate(self, size_bytes: int, op: str) -> int:
        """Address of a new block, 0 for no bytes; raises OutOfMemoryError if the card is full."""
        return self._allocate(size_bytes, op, self.certainty)

    def _allocate(self, size_bytes: int, op: str, certainty: Certainty) -> int:
        size = int(size_bytes)
        if size <= 0 or self.is_without_memory:
            return 0
        with self._lock:
            address = self.memory.allocate(size, self.stream, self.pool)
            if address is not None:
                allocated = self.memory.allocated_bytes
                self.doubt.on_allocation(address, size, certainty, allocated)
        if address is None:
            message = self._out_of_memory(size)
            self.first_out_of_memory = self.first_out_of_memory or message
            raise torch.OutOfMemoryError(message)
        if self.on_allocation is not None:
            self.on_allocation(address, size, op)
        return address

    def free(self, address: int) -> None:
        if address and not self._is_closed:
            with self._lock:
                self.memory.free(address)
                self.doubt.on_free(address)

    def close(self) -> None:
        """Storages may outlive the estimate, or be inherited by a forked process."""
        self._is_closed = True

    @contextlib.contextmanager
    def without_memory(self) -> Iterator[None]:
        """Within, nothing is allocated: what runs has its memory already."""
        before, self.is_without_memory = self.is_without_memory, True
        try:
            yield
        finally:
            self.is_without_memory = before

    def temporary(self, size_bytes: int, op: str) -> None:
        """A block that a kernel allocates and frees before it returns."""
        self.free(self.allocate(size_bytes, op))

    def held(self, op: str, *sizes: int) -> None:
        """Blocks that live together until the kernel returns, and are freed in reverse order."""
        addresses = [self.allocate(size, op) for size in sizes]
        for address in reversed(addresses):
            self.free(address)

    def persistent(self, key: object, size_bytes: int, op: str) -> None:
        """A block that is allocated once per key and never freed, such as a cuBLAS workspace."""
        if key not in self._persistent:
            self._persistent[key] = self.allocate(size_bytes, op)

    def has_persistent(self, key: object) -> bool:
        return key in self._persistent

    def release_persistent(self, matches: Callable[[Any], bool]) -> None:
        """Free persistent blocks, as torch._C._cuda_clearCublasWorkspaces() does."""
        for key in [key for key in self._persistent if matches(key)]:
            self.free(self._persistent.pop(key))

    # Storages

    def births(self, outputs: Any, op: str) -> None:
        """Allocate the new storages among an operation's outputs, in their order."""
        if isinstance(outputs, FakeTensor):
            if outputs.fake_device.type == "cuda":
                if (outputs.fake_device.index or 0) >= self.count:
                    raise no_such_card(outputs.fake_device, self.count)
                if self.count > 1 and outputs.fake_device.index != self.own_index:
                    self._note_other_card(outputs.fake_device.index)
                if outputs.layout is torch.strided:
                    self._birth(outputs, None, op)
                else:
                    self.births(_parts(outputs), op)
        elif isinstance(outputs, (tuple, list)):
            for output in outputs:
                self.births(output, op)

    @contextlib.contextmanager
    def assuming(self, is_assumed: bool = True) -> Iterator[None]:
        """Within, what is allocated is there only if an assumption holds; or, again, surely."""
        before, self.certainty = self.certainty, "absent" if is_assumed else "exact"
        try:
            yield
        finally:
            self.certainty = before

    @contextlib.contextmanager
    def in_doubt(self, more_bytes: int = 0, less_bytes: int = 0) -> Iterator[None]:
        """Within, values decide what runs: so much more or less than predicted may be live."""
        self.change_doubt(more_bytes, less_bytes)
        try:
            yield
        finally:
            self.change_doubt(-more_bytes, -less_bytes)

    def change_doubt(self, more_bytes: int, less_bytes: int) -> None:
        with self._lock:
            self.doubt.on_possible(more_bytes, less_bytes)

    def may_need(self, size_bytes: int) -> None:
        """A kernel may take so much at this moment, though it is not expected to."""
        with self._lock:
            self.doubt.on_unknown(size_bytes, self.memory.allocated_bytes)

    def on_unknown(self, outputs: Any, op: str) -> None:
        """An operation without a rule: what it needs beside its results is in doubt."""
        size = sum(each.nbytes for each in _on_cuda(outputs))
        if size:
            self.note("kernel", f"{op} has no rule: it is taken to allocate its results alone")
            with self._lock:
                self.doubt.on_unknown(size, self.memory.allocated_bytes)

    def _note_other_card(self, index: int | None) -> None:
        self.note(
            "behaviour",
            f"memory on cuda:{index or 0} was counted as if it were on cuda:{self.own_index}, the "
            "card of this rank; is torch.cuda.set_device(local_rank) missing?",
        )

    def birth_sized(self, tensor: torch.Tensor, size_bytes: int, op: str) -> None:
        """Allocate a tensor whose storage has another size than its shape says."""
        self._birth(tensor, int(size_bytes), op)

    def not_there(self, tensor: Any) -> None:
        """A tensor that the shape function puts on the device and the kernel does not."""
        if isinstance(tensor, torch.Tensor):
            self._birth(tensor, 0, "")

    def on_assumed(self, tensor: torch.Tensor) -> None:
        """A tensor that lives on only if an assumption holds."""
        storage = tensor.untyped_storage()
        address = self.address_of(storage)
        if address:
            self.doubt.on_assumed(address, storage.nbytes())

    def doubt_born(self, after: int, until: int, certainty: Certainty) -> None:
        """What was born between two moments and is still there depends on an assumption."""
        with self._lock:
            for storage, address, number in reversed(list(self._live.values())):
                if number <= after:
                    break
                found = storage() if number <= until else None
                if found is not None and address:
                    self.doubt.on_assumed(address, found.nbytes(), certainty)

    def on_assumed_size(self, size: int, is_most: bool) -> None:
        """Nobody knows how many there are: as many as possible were taken, or a part of them.

        Tensors with that many rows may be smaller, down to nothing; and larger than a part.
        """
        if size >= _LEAST_ASSUMED_SIZE:
            self._assumed_sizes.setdefault(size, "absent" if is_most else "guess")

    def _certainty_of(self, tensor: torch.Tensor) -> Certainty:
        found = {self._assumed_sizes.get(size, "exact") for size in tensor.shape}
        return "guess" if "guess" in found else "absent" if "absent" in found else "exact"

    def address_of(self, storage: torch.UntypedStorage) -> int:
        """Where a storage is; 0 if it has no memory on this device."""
        found = self._live.get(storage._cdata)
        return found[1] if found else 0

    def use(self, memory: Memory) -> None:
        """Drive another allocator from now on, with nothing allocated."""
        self.memory = memory
        self.doubt = Doubt()
        self._live.clear()
        self._persistent.clear()
        self.first_out_of_memory = ""

    def knows(self, storage: torch.UntypedStorage) -> bool:
        return storage._cdata in self._live

    def resize(self, storage: torch.UntypedStorage, size_bytes: int, op: str) -> None:
        """A storage that got another size: the new block is allocated before the old is freed."""
        key = storage._cdata
        found = self._live.get(key)
        address = self.allocate(size_bytes, op)
        if found is not None:
            self.free(found[1])
        self._watch(storage, address)

    def _birth(self, tensor: torch.Tensor, size_bytes: int | None, op: str) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._live:
            # Shapes are certain, whatever the kernel allocates beside its results.
            if size_bytes is None:
                certainty = self._certainty_of(tensor) if self._assumed_sizes else "exact"
                if self.certainty == "absent":
                    certainty = "absent"
                address = self._allocate(storage.nbytes(), op, certainty)
            else:
                address = self.allocate(size_bytes, op)
            self._watch(storage, address)

    def _watch(self, storage: torch.UntypedStorage, address: int) -> None:
        key = storage._cdata

        number = self.births_so_far = self.births_so_far + 1

        def died(_: Any, key: int = key, address: int = address, number: int = number) -> None:
            self._live.pop(key, None)
            self.free(address)
            self.pace.on_death(number)

        self._live[key] = (weakref.ref(storage, died), address, number)

    @property
    def live_storages(self) -> int:
        return len(self._live)

    # What the rules may ask and say

    def note(self, kind: Kind, text: str) -> None:
        """State an assumption about the line that is being executed."""
        self.assumptions.add(kind, text)

    @property
    def adds_in_place(self) -> bool:
        return self._adds_in_place

    @contextlib.contextmanager
    def adding_in_place(self) -> Iterator[None]:
        """Additions within are done in place, as torch's own C++ code does with plain tensors."""
        before, self._adds_in_place = self._adds_in_place, True
        try:
            yield
        finally:
            self._adds_in_place = before

    def limit_fraction(self, fraction: float) -> None:
        """As torch.cuda.set_per_process_memory_fraction does."""
        free = self.card.total_bytes - self.card.context_bytes
        self.limit_bytes = min(free, int(self.card.total_bytes * fraction))
        self.memory.limit_fraction(fraction)

    def _out_of_memory(self, size: int) -> str:
        memory = self.memory
        return (
            f"CUDA out of memory. Tried to allocate {_readable(size)}. GPU {self.index} has a "
            f"total capacity of {_readable(self.card.total_bytes)} of which "
            f"{_readable(max(0, self.limit_bytes - memory.reserved_bytes))} is free. Of the "
            f"allocated memory {_readable(memory.allocated_bytes)} is allocated by PyTorch, and "
            f"{_readable(memory.reserved_bytes - memory.allocated_bytes)} is reserved by PyTorch "
            "but unallocated. (predicted by gpumemprof estimate)"
        )


def _on_cuda(outputs: Any) -> Iterator[FakeTensor]:
    if isinstance(outputs, FakeTensor):
        if outputs.fake_device.type == "cuda":
            if outputs.layout is torch.strided:
                yield outputs
            else:
                yield from _on_cuda(_parts(outputs))
    elif isinstance(outputs, (tuple, list)):
        for output in outputs:
            yield from _on_cuda(output)


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that a sparse tensor consists of."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _readable(size: int) -> str:
    """A size as torch writes it in this message."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"
