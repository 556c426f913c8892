"""Asks cuDNN itself which algorithm it would choose, and how large its workspace is.

Since 9.8, cuDNN answers without a GPU, for a card that is described by its properties. The library
comes with torch's CUDA packages; without it, `ask` returns None.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.rules.convolution.shape import Convolution, Kind

__all__ = ["DEFAULT_SETTINGS", "Plan", "Settings", "ask", "current_settings"]

FIRST_VERSION = 90800
# Names and numbers as in cudnn_graph.h.
CONVOLUTION, ENGINE, ENGINE_CONFIG, HEURISTICS, KNOB = 1, 2, 3, 4, 7
OPERATIONS = {"forward": 10, "weight": 11, "data": 12}
GRAPH, TENSOR, DEVICE = 15, 17, 38
INT32_TYPE, CHAR_TYPE, DESCRIPTOR_TYPE = 23, 24, 15
DATA_TYPE, INT64_TYPE, FLOAT_TYPE, DOUBLE_TYPE = 1, 3, 4, 5
CONVOLUTION_MODE_TYPE, HEURISTIC_MODE_TYPE, KNOB_TYPE, NOTE_TYPE = 7, 8, 9, 11
CROSS_CORRELATION = 1
INSTANT, FALLBACK = 0, 2
TENSOR_CORE, DOWN_CONVERTS, NOT_DETERMINISTIC = 0, 1, 4
DATA_TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 9}
# Attributes of the operations: first factor, convolution, weight, input, output.
OPERATION_ATTRIBUTES = {
    "forward": (700, 702, 703, 704, 705),
    "data": (706, 708, 709, 710, 711),
    "weight": (712, 714, 715, 716, 717),
}
MOST_PLANS = 40
# Of one block, with the program's consent, in bytes.
SHARED_MEMORY = {(7, 0): 98304, (7, 5): 65536, (8, 0): 166912, (8, 7): 166912}
SHARED_MEMORY_OF_OTHERS = {7: 65536, 8: 101376, 9: 232448, 10: 232448, 12: 101376}


@dataclass(frozen=True)
class Plan:
    """One of cuDNN's algorithms, with its settings."""

    engine: int
    workspace_bytes: int
    knobs: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What a program allows cuDNN to do."""

    allows_tf32: bool = True
    is_deterministic: bool = False


DEFAULT_SETTINGS = Settings()


def current_settings(dtype: torch.dtype) -> Settings:
    """Of `torch.backends.cudnn`, as far as they matter for a type."""
    return Settings(
        dtype != torch.float32 or bool(torch.backends.cudnn.allow_tf32),
        bool(torch.backends.cudnn.deterministic),
    )


class RefusedError(Exception):
    """cuDNN does not support what was asked for."""


def _library_paths() -> list[str]:
    found = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found += [str(path) for path in Path(folder).glob("*/lib/libcudnn_graph.so.9")]
    return [*found, "libcudnn_graph.so.9"]


def _loaded(path: str) -> Any:
    try:
        library = ctypes.CDLL(path)
        library.cudnnGetVersion.restype = ctypes.c_size_t
        return library if library.cudnnGetVersion() >= FIRST_VERSION else None
    except (OSError, AttributeError):
        return None


@functools.cache
def _library() -> Any:
    """The part of cuDNN that answers; None if there is none, or it is too old."""
    return next(filter(None, map(_loaded, _library_paths())), None)


class Descriptor:
    """An object of cuDNN's backend, and those that it refers to."""

    def __init__(self, kind: int) -> None:
        self.library = _library()
        self.handle = ctypes.c_void_p()
        self.parts: list[Descriptor] = []
        self._check(self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.handle)))

    def __del__(self) -> None:
        self.library.cudnnBackendDestroyDescriptor(self.handle)

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise RefusedError(status)

    def set(self, attribute: int, kind: int, c_type: Any, values: Sequence[Any]) -> Descriptor:
        array = (c_type * len(values))(*values)
        count = ctypes.c_int64(len(values))
        self._check(
            self.library.cudnnBackendSetAttribute(self.handle, attribute, kind, count, array)
        )
        return self

    def integers(self, attribute: int, *values: int) -> Descriptor:
        return self.set(attribute, INT64_TYPE, ctypes.c_int64, values)

    def choice(self, attribute: int, kind: int, value: int) -> Descriptor:
        return self.set(attribute, kind, ctypes.c_int, [value])

    def refer(self, attribute: int, *parts: Descriptor) -> Descriptor:
        self.parts += parts
        handles = [part.handle for part in parts]
        return self.set(attribute, DESCRIPTOR_TYPE, ctypes.c_void_p, handles)

    def finished(self) -> Descriptor:
        self._check(self.library.cudnnBackendFinalize(self.handle))
        return self

    def _read(self, attribute: int, kind: int, array: Any) -> int:
        found = ctypes.c_int64()
        self._check(
            self.library.cudnnBackendGetAttribute(
                self.handle,
                attribute,
                kind,
                ctypes.c_int64(len(array)),
                ctypes.byref(found),
                array,
            )
        )
        return min(found.value, len(array))

    def values(self, attribute: int, kind: int, c_type: Any, most: int = 1) -> list[int]:
        array = (c_type * most)()
        count = self._read(attribute, kind, array)
        return list(array)[:count]

    def referred(self, attribute: int, kind: int, most: int = 1) -> list[Descriptor]:
        found = [Descriptor(kind) for _ in range(most)]
        array = (ctypes.c_void_p * most)(*[each.handle for each in found])
        return found[: self._read(attribute, DESCRIPTOR_TYPE, array)]


@functools.lru_cache(maxsize=8)
def _device(card: Card) -> Descriptor:
    """A card as cuDNN describes it. It chooses by `deviceVer`, the compute capability."""
    major, minor = card.capability
    shared = SHARED_MEMORY.get((major, minor), SHARED_MEMORY_OF_OTHERS.get(major, 232448))
    properties = {
        "deviceName": card.name,
        "deviceVer": major * 100 + minor * 10,
        "driverVer": 13000,
        "cudaDeviceId": 0,
        "pciDeviceId": 0,
        "totalGlobalMem": card.total_bytes,
        "multiProcessorCount": card.multiprocessors,
        "smClockRateKHz": 1_980_000,
        "memClockRateKHz": 3_201_000,
        "l2CacheSize": 62_914_560,
        "warpSize": 32,
        "maxGridSize": [2_147_483_647, 65_535, 65_535],
        "maxBlockSize": [1024, 1024, 64],
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048,
        "maxCtasPerSM": 32,
        "regsPerBlock": 65_536,
        "maxRegistersPerSM": 65_536,
        "maxSharedMemoryPerBlock": 49_152,
        "maxSharedMemoryPerBlockOptin": shared,
        "reservedSharedMemoryPerBlock": 1024,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
    }
    text = json.dumps(properties).encode()
    return Descriptor(DEVICE).set(2702, CHAR_TYPE, ctypes.c_char, list(text)).finished()


def _tensor(name: str, sizes: Sequence[int], convolution: Convolution) -> Descriptor:
    last_first = list(range(len(sizes) - 1, 1, -1))
    order = [1, *last_first, 0] if convolution.is_channels_last else [*last_first, 1, 0]
    strides = [0] * len(sizes)
    step = 1
    for index in order:
        strides[index] = step
        step *= sizes[index]
    tensor = Descriptor(TENSOR).integers(900, 64).integers(906, ord(name))
    tensor.choice(901, DATA_TYPE, DATA_TYPES[convolution.dtype])
    return tensor.integers(902, *sizes).integers(903, *strides).finished()


def _graph(convolution: Convolution, kind: Kind) -> Descriptor:
    """The operation as torch describes it to cuDNN: a convolution of a line is one of an image.

    A transposed convolution computes what another one has for the gradient of its input.
    """
    each = convolution
    before, after = (each.channels, *each.image), (each.outputs, *each.output_image)
    if each.is_transposed:
        before, after = after, before
        kind = {"forward": "data", "data": "forward", "weight": "weight"}[kind]  # type: ignore
    one = (1,) if len(each.image) == 1 else ()
    kernel, stride, dilation = (
        (*one, *sizes) for sizes in (each.kernel, each.stride, each.dilation)
    )
    padding = (*([0] if one else []), *each.padding)
    factor, conv_attribute, weight, source, result = OPERATION_ATTRIBUTES[kind]
    c_type, number_type = ctypes.c_float, FLOAT_TYPE
    if each.dtype == torch.float64:
        c_type, number_type = ctypes.c_double, DOUBLE_TYPE  # type: ignore[assignment]
    described = Descriptor(CONVOLUTION)
    described.choice(100, DATA_TYPE, DATA_TYPES[torch.float64 if number_type == 5 else torch.float])
    described.choice(101, CONVOLUTION_MODE_TYPE, CROSS_CORRELATION).integers(102, *dilation)
    described.integers(103, *stride).integers(104, *padding).integers(105, *padding)
    described.integers(106, len(stride)).finished()
    weights = (after[0], before[0] // each.groups, *kernel)
    operation = Descriptor(OPERATIONS[kind])
    operation.refer(conv_attribute, described).refer(weight, _tensor("w", weights, each))
    operation.refer(source, _tensor("x", (each.batch, before[0], *one, *before[1:]), each))
    operation.refer(result, _tensor("y", (each.batch, after[0], *one, *after[1:]), each))
    operation.set(factor, number_type, c_type, [1.0])
    operation.set(factor + 1, number_type, c_type, [0.0]).finished()
    return Descriptor(GRAPH).refer(801, operation).finished()


def _is_allowed(notes: Sequence[int], dtype: torch.dtype, settings: Settings) -> bool:
    """Torch skips algorithms that round inputs, and those that a program's settings rule out."""
    if settings.is_deterministic and NOT_DETERMINISTIC in notes:
        return False
    if dtype != torch.float32:
        return True
    return DOWN_CONVERTS not in notes and (settings.allows_tf32 or TENSOR_CORE not in notes)


def _plans(
    graph: Descriptor, card: Card, dtype: torch.dtype, mode: int, settings: Settings
) -> list[Plan]:
    heuristics = Descriptor(HEURISTICS).refer(201, graph).choice(200, HEURISTIC_MODE_TYPE, mode)
    found = []
    heuristics.refer(204, _device(card)).finished()
    for config in heuristics.referred(202, ENGINE_CONFIG, MOST_PLANS):
        engine = config.referred(300, ENGINE)[0]
        notes = engine.values(1303, NOTE_TYPE, ctypes.c_int, 20)
        if not _is_allowed(notes, dtype, settings):
            continue
        knobs = {
            knob.values(600, KNOB_TYPE, ctypes.c_int)[0]: knob.values(
                601, INT64_TYPE, ctypes.c_int64
            )[0]
            for knob in config.referred(302, KNOB, 40)
        }
        size = config.values(303, INT64_TYPE, ctypes.c_int64)[0]
        found.append(Plan(engine.values(1301, INT64_TYPE, ctypes.c_int64)[0], size, knobs))
        break  # the first is taken
    return found


def ask(
    convolution: Convolution, kind: Kind, card: Card, settings: Settings = DEFAULT_SETTINGS
) -> Plan | None:
    """The algorithm that cuDNN would choose on a card; None if it cannot be asked."""
    if _library() is None or convolution.dtype not in DATA_TYPES:
        return None
    try:
        graph = _graph(convolution, kind)
        for mode in (INSTANT, FALLBACK):
            if plans := _plans(graph, card, convolution.dtype, mode, settings):
                return plans[0]
    except RefusedError:
        pass
    return None
