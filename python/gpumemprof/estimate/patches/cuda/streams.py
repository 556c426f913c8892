"""Streams and events. Work is done at once, so that waiting never takes time.

Each stream has its own memory in the caching allocator: the current stream is the device's.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, ClassVar

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_STREAMS_OF_PRIORITY = 32


class Event:
    """An event that has always happened; the time between two is that of the estimate."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.recorded_at = time.perf_counter()
        self.cuda_event = 0
        self.device = torch.device("cuda", StreamContext.device.index)

    def record(self, stream: Any = None) -> None:
        self.recorded_at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end_event: Event) -> float:
        return max(1e-3, (end_event.recorded_at - self.recorded_at) * 1e3)

    def ipc_handle(self) -> bytes:
        return b""


class Stream:
    """A stream of the simulated device; `with` makes it the current one.

    torch makes a number of streams for each priority and hands them out in turn.
    """

    # How many were handed out, by whether they have priority.
    _taken: ClassVar = {False: itertools.count(), True: itertools.count()}

    def __init__(self, device: Any = None, priority: int = 0, **known: Any) -> None:
        self.stream_id = known.get("stream_id")
        if self.stream_id is None:
            has_priority = priority < 0
            number = next(Stream._taken[has_priority]) % _STREAMS_OF_PRIORITY
            self.stream_id = 1 + number + (_STREAMS_OF_PRIORITY if has_priority else 0)
        self.cuda_stream = self.stream_id
        self.device_index = StreamContext.device.index
        self.device = torch.device("cuda", self.device_index)
        self.device_type = 1
        self.priority = priority

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> Stream:
        self._context = _context(self)
        self._context.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._context.__exit__(*details)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream_id == self.stream_id

    def __hash__(self) -> int:
        return hash(self.stream_id)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class StreamContext:
    """torch.cuda.stream(): allocations within belong to the stream."""

    device: Device

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._before = 0

    def __enter__(self) -> None:
        self._before = self.device.stream
        if self.stream is not None:
            self.device.stream = self.stream.stream_id

    def __exit__(self, *_: Any) -> None:
        self.device.stream = self._before


def _context(stream: Stream) -> StreamContext:
    return StreamContext(stream)


def install(patcher: Patcher, device: Device) -> None:
    StreamContext.device = device
    default = Stream(stream_id=0)

    def current(*_: Any, **__: Any) -> Stream:
        return default if device.stream == 0 else Stream(stream_id=device.stream)

    def set_stream(stream: Any) -> None:
        if stream is not None:
            device.stream = stream.stream_id

    def external(pointer: int = 0, *_: Any, **__: Any) -> Stream:
        return Stream(stream_id=int(pointer))

    owners = [torch.cuda, torch.cuda.streams]
    for owner in owners:
        patcher.set(owner, "Stream", Stream)
        patcher.set(owner, "Event", Event)
        patcher.set_if_present(owner, "ExternalStream", external)
    answers: dict[str, Any] = {
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": current,
        "default_stream": lambda *_, **__: default,
        "set_stream": set_stream,
        "get_stream_from_external": external,
    }
    for name, answer in answers.items():
        patcher.set_if_present(torch.cuda, name, answer)
    patcher.set(torch.Tensor, "record_stream", lambda tensor, *_, **__: None)
    patcher.set_if_present(torch, "Stream", Stream)
    patcher.set_if_present(torch, "Event", Event)
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        # torch's compiler tells functions apart by their identity.
        patcher.set_if_present(accelerator, "current_stream", lambda *_, **__: current())
        patcher.set_if_present(accelerator, "set_stream", lambda stream: set_stream(stream))
    native: dict[str, Any] = {
        "_cuda_getCurrentRawStream": lambda *_: device.stream,
        "_cuda_getCurrentStream": lambda *_: (device.stream, device.index, 1),
    }
    for name, answer in native.items():
        patcher.set(torch._C, name, answer)
