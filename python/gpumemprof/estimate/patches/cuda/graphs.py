"""CUDA graphs: what is captured runs once, eagerly, in the graph's own pool; replays do nothing."""

from __future__ import annotations

import gc
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.cuda.pools import Pool, Pools
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["capturing_graph", "install"]

_STATE_BYTES = 8  # a seed, or an offset

# Those being captured, the innermost last.
_capturing: list[Any] = []


def capturing_graph() -> Any | None:
    """The graph that is being captured; each replay calls what is in its `on_replay`."""
    return _capturing[-1] if _capturing else None


class _RandomStates:
    """Seed and offset of the random numbers, on the device while there is any graph."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._graphs = 0
        self._addresses: list[int] = []

    def keep(self) -> None:
        self._graphs += 1
        if self._graphs == 1:
            self._addresses = [
                self._device.allocate(_STATE_BYTES, "CUDA graph") for _ in ("seed", "offset")
            ]

    def release(self) -> None:
        self._graphs -= 1
        if self._graphs == 0:
            for address in self._addresses:
                self._device.free(address)


class _Graph:
    """torch.cuda.graph(): all captures without a stream of their own share one."""

    default_capture_stream: Any = None

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None, *_: Any, **__: Any
    ) -> None:
        if stream is None and _Graph.default_capture_stream is None:
            _Graph.default_capture_stream = torch.cuda.Stream()
        self.capture_stream = stream or _Graph.default_capture_stream
        self.stream_ctx = torch.cuda.stream(self.capture_stream)
        self.pool = () if pool is None else (pool,)
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None:
        if _collects_garbage():
            gc.collect()
        torch.cuda.empty_cache()
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(*self.pool)

    def __exit__(self, *details: Any) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*details)


def install(patcher: Patcher, device: Device, pools: Pools) -> None:
    random_states = _RandomStates(device)
    patcher.set(_Graph, "default_capture_stream", None)
    patcher.on_undo(_capturing.clear)

    class CUDAGraph:
        """Keeps the pool whose memory the captured operations use."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._pool: Pool | None = None
            self._before = (0, 0)
            self.on_replay: list[Callable[[], None]] = []

        def capture_begin(self, pool: Any = None, *_: Any, **__: Any) -> None:
            if self._pool is not None:
                raise RuntimeError(
                    "This CUDAGraph instance already owns a captured graph. To capture a new "
                    "graph, create a new instance."
                )
            random_states.keep()
            self._pool = tuple(pool) if pool is not None else pools.of_capture()
            pools.keep(self._pool)
            self._before, device.pool = device.pool, self._pool
            _capturing.append(self)
            device.note("behaviour", "a CUDA graph was captured by running it once")

        def capture_end(self) -> None:
            if self in _capturing:
                _capturing.remove(self)
            device.pool = self._before

        def replay(self) -> None:
            for call in self.on_replay:
                call()

        def reset(self) -> None:
            if self._pool is not None:
                pools.release(self._pool)
                random_states.release()
                self._pool = None
                self.on_replay = []

        def pool(self) -> Pool:
            if self._pool is None:
                raise RuntimeError(
                    "Called CUDAGraph::pool() without a preceding successful capture."
                )
            return self._pool

        def __getattr__(self, name: str) -> Callable[..., None]:
            if name.startswith("_"):
                raise AttributeError(name)
            return lambda *_, **__: None

        def __del__(self) -> None:
            self.reset()

    def is_capturing() -> bool:
        return bool(_capturing)

    for owner in (torch.cuda, torch.cuda.graphs):
        patcher.set_if_present(owner, "CUDAGraph", CUDAGraph)
        patcher.set_if_present(owner, "graph", _Graph)
        patcher.set_if_present(owner, "graph_pool_handle", pools.of_user)
        patcher.set_if_present(owner, "is_current_stream_capturing", is_capturing)
    patcher.set(torch._C, "_cuda_isCurrentStreamCapturing", is_capturing)


def _collects_garbage() -> bool:
    """Older releases of torch collect it before every capture."""
    config = getattr(torch.compiler, "config", None)
    return bool(getattr(config, "force_cudagraph_gc", True))
