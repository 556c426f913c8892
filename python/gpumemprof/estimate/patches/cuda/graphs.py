"""CUDA graphs: what is captured runs once, eagerly, in the graph's own pool; replays do nothing."""

from __future__ import annotations

import itertools
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    numbers = itertools.count(1)

    def new_pool() -> tuple[int, int]:
        return (0, next(numbers))

    class CUDAGraph:
        """Holds the pool whose memory the captured operations keep."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._pool = (0, 0)
            self._before = (0, 0)

        def capture_begin(self, pool: Any = None, *_: Any, **__: Any) -> None:
            self._before = device.pool
            self._pool = device.pool = tuple(pool) if pool is not None else new_pool()
            device.note("execution", "a CUDA graph was captured by running it once")

        def capture_end(self) -> None:
            device.pool = self._before

        def replay(self) -> None:
            pass

        def reset(self) -> None:
            pass

        def pool(self) -> tuple[int, int]:
            return self._pool

        def __getattr__(self, name: str) -> Callable[..., None]:
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *_, **__: None

    class Graph:
        """torch.cuda.graph()."""

        default_capture_stream = None

        def __init__(
            self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, *_: Any, **__: Any
        ) -> None:
            self.cuda_graph = cuda_graph
            self._graph_pool = pool
            self._stream = torch.cuda.stream(stream or torch.cuda.Stream())

        def __enter__(self) -> None:
            torch.cuda.empty_cache()
            self._stream.__enter__()
            self.cuda_graph.capture_begin(self._graph_pool)

        def __exit__(self, *details: Any) -> None:
            self.cuda_graph.capture_end()
            self._stream.__exit__(*details)

    def make_graphed_callables(callables: Any, sample_args: Any, *_: Any, **__: Any) -> Any:
        device.note("execution", "make_graphed_callables left its callables as they are")
        return callables

    for owner in (torch.cuda, torch.cuda.graphs):
        patcher.set_if_present(owner, "CUDAGraph", CUDAGraph)
        patcher.set_if_present(owner, "graph", Graph)
        patcher.set_if_present(owner, "graph_pool_handle", new_pool)
        patcher.set_if_present(owner, "make_graphed_callables", make_graphed_callables)
        patcher.set_if_present(owner, "is_current_stream_capturing", lambda: False)
