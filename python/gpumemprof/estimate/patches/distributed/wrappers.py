"""What DistributedDataParallel asks of the card: whether all parameters are equal, and the time."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.utils
import torch.nn.parallel.distributed
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.collectives import finished_work

__all__ = ["install"]

aten = torch.ops.aten

_NEVER = -1

_kept: list[torch.Tensor] = []
"""On the card for as long as their reducers live, which is usually to the end."""


def install(patcher: Patcher) -> None:
    def same(*_: Any, **__: Any) -> None:
        """All ranks run the same program."""

    name = "_verify_param_shape_across_processes"
    for owner in (torch.distributed.utils, torch.nn.parallel.distributed):
        patcher.set_if_present(owner, name, same)
    real = torch.distributed.Reducer

    def reducer(parameters: list[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        with _Construction(len(parameters)):
            return real(parameters, *args, **kwargs)

    patcher.set(torch.distributed, "Reducer", reducer)
    patcher.on_undo(_kept.clear)
    make_static = real._set_static_graph
    rebuild = real._rebuild_buckets

    def set_static_graph(self: Any) -> Any:
        with _Construction(_NEVER):
            return make_static(self)

    def rebuild_buckets(self: Any) -> Any:
        with _HostIntegers():
            return rebuild(self)

    patcher.set(real, "_set_static_graph", set_static_graph)
    patcher.set(real, "_rebuild_buckets", rebuild_buckets)


class _Construction(TorchDispatchMode):  # type: ignore[misc]
    """While a reducer is made, which takes times on its first parameter's device with CUDA events.

    It asks for the device of each parameter, to see whether they are on one device, then once more
    for the first: to choose a timer. That question is answered with the CPU.
    """

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self._questions_before = parameters

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.prim.device.default:
            self._questions_before -= 1
            if self._questions_before == -1:
                return torch.device("cpu")
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if func is aten.empty.memory_format and kwargs.get("dtype") is torch.int32:
            # Which parameters were used, to be copied from pinned memory, which there is not.
            _kept.append(made)
            return func(*args, **{**kwargs, "device": torch.device("cpu")})
        return made


class _HostIntegers(TorchDispatchMode):  # type: ignore[misc]
    """The reducer writes the order of its buckets to tensors of integers, and has rank 0 send them.

    All ranks have the same order. The integers are real, so that compiled code can read them.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten.empty.memory_format and kwargs.get("dtype") is torch.int32:
            with outside_modes():
                return torch.empty(*args, dtype=torch.int32)
        if func is aten.copy_.default and not isinstance(args[0], FakeTensor):
            with outside_modes():
                return func(*args, **kwargs)
        if func is torch.ops.c10d.broadcast_.default:
            return args[0], finished_work(args[0]).boxed()
        return func(*args, **kwargs)
