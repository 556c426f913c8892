"""torch.compile(mode="reduce-overhead"): CUDA graphs of compiled programs.

Each compiled function runs three ways (torch/_inductor/cudagraph_trees.py): once as it is, to warm
up; once while a graph records it; from then on the graph is replayed, and allocates nothing. The
first two allocate from one private pool, on a stream of their own. What cuBLAS took is given back
after each. A recorded function reads its inputs at fixed places: those which are not parameters or
results of another recorded function are copied into the pool. One that writes over such an input
is not recorded at all.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

Model = Callable[[list[Any]], Any]


class _Tree:
    """The pool and the stream that all graphs of a program share."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()
        self._graphs: list[Any] = []
        self.results: set[int] = set()  # addresses of what recorded functions returned
        with self.recording():
            pass  # an empty graph keeps the pool

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        graph = torch.cuda.CUDAGraph()
        self._graphs.append(graph)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            yield

    @contextlib.contextmanager
    def within_pool(self) -> Iterator[None]:
        device = self.device
        with torch.cuda.stream(self.stream):
            before, device.pool = device.pool, self.pool
            try:
                yield
            finally:
                device.pool = before

    @contextlib.contextmanager
    def without_workspaces(self) -> Iterator[None]:
        torch._C._cuda_clearCublasWorkspaces()
        try:
            yield
        finally:
            torch._C._cuda_clearCublasWorkspaces()

    def has(self, tensor: torch.Tensor) -> bool:
        return self.device.address_of(tensor.untyped_storage()) in self.results

    def note_results(self, outputs: Any) -> None:
        for each in outputs:
            if isinstance(each, torch.Tensor):
                self.results.add(self.device.address_of(each.untyped_storage()))


class _Graphed:
    def __init__(
        self, tree: _Tree, model: Model, static: Sequence[int], written: Sequence[int]
    ) -> None:
        self._tree = tree
        self._model = model
        self._static = frozenset(static)
        self._written = [index for index in written if index not in self._static]
        self._calls = 0

    def run(self, inputs: list[Any]) -> Any:
        if not all(self._tree.has(inputs[index]) for index in self._written):
            return self._model(inputs)
        self._calls += 1
        if self._calls == 1:
            with self._tree.without_workspaces(), self._tree.within_pool():
                outputs = self._model(inputs)
        elif self._calls == 2:
            outputs = self._record(inputs)
        else:
            return self._replay(inputs)
        self._tree.note_results(outputs)
        return outputs

    def _record(self, inputs: list[Any]) -> Any:
        with self._tree.within_pool():
            recorded = self._at_fixed_places(inputs)
        inputs.clear()
        with self._tree.without_workspaces(), self._tree.recording():
            return self._model(recorded)

    def _replay(self, inputs: list[Any]) -> Any:
        with torch.cuda.stream(self._tree.stream), self._tree.device.without_memory():
            recorded = self._at_fixed_places(inputs)
            inputs.clear()
            outputs = self._model(recorded)
            torch._C._cuda_clearCublasWorkspaces()
        return outputs

    def _at_fixed_places(self, inputs: Sequence[Any]) -> list[Any]:
        return [
            each
            if not isinstance(each, torch.Tensor)
            or each.device.type != "cuda"
            or index in self._static
            or self._tree.has(each)
            else torch.empty_strided(
                each.size(), each.stride(), dtype=each.dtype, device=each.device
            )
            for index, each in enumerate(inputs)
        ]


def install(patcher: Patcher, device: Device) -> None:
    cudagraph_trees = _module()
    tree: _Tree | None = None

    def make_graph(
        model: Model,
        inputs: list[Any],
        static_input_idxs: Sequence[int] = (),
        *_: Any,
        mutated_input_idxs: Sequence[int] = (),
        **__: Any,
    ) -> tuple[Model, Any]:
        nonlocal tree
        tree = tree or _Tree(device)
        graphed = _Graphed(tree, model, static_input_idxs, mutated_input_idxs)
        return graphed.run, graphed.run(inputs)

    patcher.set(cudagraph_trees, "cudagraphify", make_graph)
    patcher.set(torch._C, "_cuda_cudaCachingAllocator_is_enabled", lambda: True)


def _module() -> Any:
    """Builds without CUDA look like builds with it, but lack what the module would import."""
    says_built = torch.backends.cuda.is_built
    is_built = hasattr(torch._C, "_cuda_CUDAAllocator_AllocatorState")
    torch.backends.cuda.is_built = lambda: is_built
    try:
        return importlib.import_module("torch._inductor.cudagraph_trees")
    finally:
        torch.backends.cuda.is_built = says_built
