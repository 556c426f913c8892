"""A fake CUDA device: enough of torch.cuda to profile it.

Its library is compiled from the C++ tests' sources; it reports blocks as torch's allocator does.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

SOURCE = Path(__file__).resolve().parents[1] / "cpp/capture/fake_torch/c10_cuda.cpp"
BLOCK = 512
PAGE = 2 << 20
STATS = ("allocated_bytes", "active_bytes", "reserved_bytes", "allocation")


def build_library(folder: Path) -> ctypes.CDLL:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    path = folder / "libc10_cuda.so"
    torch_library = Path(torch.__file__).parent / "lib" / "libc10.so"
    command = [compiler, "-shared", "-fPIC", str(SOURCE), str(torch_library), "-o", str(path)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(path))


class Card:
    """One device's allocator: rounds to blocks, counts as torch does, and reports to a library."""

    def __init__(self, index: int, library: ctypes.CDLL | None) -> None:
        self.index = index
        self.library = library
        self.live: dict[int, int] = {}
        self.addresses = itertools.count(1)
        counts = ("current", "peak", "allocated", "freed")
        self.stats = {name: dict.fromkeys(counts, 0) for name in STATS}
        self.synchronized = 0

    def _count(self, name: str, change: int) -> None:
        stat = self.stats[name]
        stat["current"] += change
        stat["peak"] = max(stat["peak"], stat["current"])
        stat["allocated" if change > 0 else "freed"] += abs(change)

    def _tell(self, address: int, change: int) -> None:
        self._count("allocated_bytes", change)
        self._count("active_bytes", change)
        self._count("allocation", 1 if change > 0 else -1)
        missing = self.stats["allocated_bytes"]["current"] - self.stats["reserved_bytes"]["current"]
        if missing > 0:
            self._count("reserved_bytes", -(-missing // PAGE) * PAGE)
        if self.library is not None:
            self.library.fake_report(
                ctypes.c_uint64(address),
                ctypes.c_int64(change),
                ctypes.c_uint64(self.stats["allocated_bytes"]["current"]),
                ctypes.c_uint64(self.stats["reserved_bytes"]["current"]),
                ctypes.c_int(self.index),
            )

    def alloc(self, size: int) -> int:
        address = next(self.addresses) << 20
        self.live[address] = -(-size // BLOCK) * BLOCK
        self._tell(address, self.live[address])
        return address

    def free(self, address: int) -> None:
        self._tell(address, -self.live.pop(address))


def install(monkeypatch: pytest.MonkeyPatch, cards: list[Card], backend: str = "native") -> None:
    def card_of(device: object) -> Card:
        return cards[device if isinstance(device, int) else torch.device(device).index or 0]

    def synchronize(device: object = None) -> None:
        card_of(device).synchronized += 1

    def stats(device: object = None) -> dict[str, dict[str, dict[str, int]]]:
        return {name: {"all": dict(stat)} for name, stat in card_of(device).stats.items()}

    fakes = {
        "is_available": lambda: True,
        "init": lambda: None,
        "device_count": lambda: len(cards),
        "current_device": lambda: 0,
        "synchronize": synchronize,
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda device=None: (3 << 30, 4 << 30),
        "get_allocator_backend": lambda: backend,
        "memory_stats_as_nested_dict": stats,
        "get_device_properties": lambda device=None: SimpleNamespace(name="none", total_memory=0),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
