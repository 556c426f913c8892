"""Data loaders run for real: their tensors are the user's data, in this process or in workers."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from gpumemprof.estimate.engine.failures import hide_frames
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.reading.pinned import pin
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, modes: Callable[[], Any]) -> None:
    """`modes` makes a context in which operations are estimated."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch, pin_memory, worker

    run_real = functools.partial(_for_real, modes)
    iterator = dataloader._BaseDataLoaderIter
    patcher.set(iterator, "__next__", run_real(iterator.__next__))
    patcher.set(dataloader.DataLoader, "__iter__", run_real(dataloader.DataLoader.__iter__))
    patcher.set(pin_memory, "pin_memory", lambda data, device=None: tree_map(pin, data))
    patcher.set(pin_memory, "_pin_memory_loop", run_real(pin_memory._pin_memory_loop))
    patcher.set(worker, "_worker_loop", run_real(worker._worker_loop))
    this_process = os.getpid()
    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        patcher.set(kind, "fetch", _fetch(kind.fetch, this_process))
    _hide_frames_of_workers(patcher)


def _hide_frames_of_workers(patcher: Patcher) -> None:
    """A worker sends the text of its traceback."""
    wrapper: Any = torch._utils.ExceptionWrapper
    real = wrapper.__init__

    def wrap(self: Any, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        if error is not None:
            hide_frames(error)
            trace = error.__traceback__
        real(self, (kind, error, trace), where)

    patcher.set(wrapper, "__init__", wrap)


class _RealUnlessCuda(TorchDispatchMode):  # type: ignore[misc]
    """Computes for real, except what is on the device: a collate function may move data there."""

    def __init__(self, modes: Callable[[], Any]) -> None:
        super().__init__()
        self._modes = modes

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if (device is not None and device.type == "cuda") or _has_fake(args):
            with self._modes():
                return func(*args, **kwargs)
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)


def _has_fake(args: Iterable[Any]) -> bool:
    return any(
        isinstance(each, FakeTensor) or (isinstance(each, (list, tuple)) and _has_fake(each))
        for each in args
    )


def _for_real(modes: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with outside_modes(keeps_functions=True), _RealUnlessCuda(modes):
            return function(*args, **kwargs)

    return run


def _fetch(real: Callable[..., Any], this_process: int) -> Callable[..., Any]:
    """A worker sends real tensors; a data set made of fake ones yields zeros."""

    @functools.wraps(real)
    def fetch(self: Any, indices: Any) -> Any:
        data = real(self, indices)
        return data if os.getpid() == this_process else tree_map(_as_real, data)

    return fetch


def _as_real(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return torch.zeros(value.shape, dtype=value.dtype, device="cpu")
    return value
