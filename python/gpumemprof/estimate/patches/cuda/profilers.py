"""Profilers of CUDA: there are no kernels to measure, and they would ask the driver."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from gpumemprof.estimate.patches.native import saying_no_cuda
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher) -> None:
    kineto = torch.profiler.profiler
    activities = torch.profiler.ProfilerActivity

    def without_cuda(real: Any) -> Any:
        @functools.wraps(real)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if "activities" in kwargs:
                wanted = set(kwargs["activities"] or ()) - {activities.CUDA}
                kwargs["activities"] = wanted or {activities.CPU}
            real(self, *args, **kwargs)

        return init

    profile = torch.autograd.profiler.profile

    @functools.wraps(profile.__init__)
    def of_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("use_cuda", "use_device"):
            if kwargs.get(name):
                kwargs[name] = False if name == "use_cuda" else None
        real(self, *args, **kwargs)
        # With shapes it keeps weak references to tensors, and no module could move its parameters.
        self.record_shapes = False

    @contextlib.contextmanager
    def nothing(*_: Any, **__: Any) -> Iterator[None]:
        yield

    def unaware(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with saying_no_cuda():
                return function(*args, **kwargs)

        return call

    module = torch.autograd.profiler
    for name in ("_prepare_profiler", "_enable_profiler", "_disable_profiler"):
        if hasattr(module, name):
            patcher.set(module, name, unaware(getattr(module, name)))
    patcher.set(torch.profiler, "supported_activities", lambda: {activities.CPU})
    patcher.set(kineto, "supported_activities", lambda: {activities.CPU})
    for kind in (torch.profiler.profile, kineto._KinetoProfile):
        patcher.set(kind, "__init__", without_cuda(kind.__init__))
    real = patcher.set(profile, "__init__", of_cpu)
    for name in ("emit_nvtx", "emit_itt"):
        patcher.set_if_present(torch.autograd.profiler, name, nothing)
    profiler = torch.cuda.profiler
    for name in ("start", "stop", "init"):
        patcher.set_if_present(profiler, name, lambda *_, **__: None)
    patcher.set(profiler, "profile", nothing)
    nvtx = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        patcher.set(nvtx, name, lambda *_, **__: 0)
