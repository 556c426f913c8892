"""Process groups: torch's own fake backend takes the place of NCCL, Gloo and all others.

Programs still see the backend that they asked for.
"""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import distributed_c10d

from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.collectives import Collectives, finished_work

__all__ = ["install"]

_FAKE = "fake"


def install(patcher: Patcher, collectives: Collectives) -> None:
    _register_backend()
    _tell_reductions(patcher, collectives)
    real = distributed_c10d._new_process_group_helper
    signature = inspect.signature(real)

    @functools.wraps(real)
    def create(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        wanted = bound.arguments["backend"]
        config = distributed_c10d.BackendConfig(distributed_c10d.Backend(wanted))
        devices = config.get_device_backend_map()
        bound.arguments["backend"] = ",".join(f"{device}:{_FAKE}" for device in devices)
        for name in ("backend_options", "pg_options", "device_id"):
            if name in bound.arguments:
                bound.arguments[name] = None
        group, store = real(*bound.args, **bound.kwargs)
        if isinstance(group, torch.distributed.ProcessGroup):
            group._set_default_backend(torch.distributed.ProcessGroup.BackendType.CUSTOM)
            world = distributed_c10d._world
            world.pg_map[group] = (distributed_c10d.Backend(wanted), store)
            world.pg_backend_config[group] = str(config)
        return group, store

    patcher.set(distributed_c10d, "_new_process_group_helper", create)
    for name in ("is_nccl_available", "is_gloo_available"):
        for owner in (distributed_c10d, torch.distributed):
            patcher.set(owner, name, lambda: True)
    minutes = {"nccl": 10}  # as torch's own defaults, which builds without NCCL do not have
    patcher.set(
        distributed_c10d,
        "_get_default_timeout",
        lambda backend: timedelta(minutes=minutes.get(str(backend), 30)),
    )
    # Not all releases' fake backends have these.
    kind = torch.distributed.ProcessGroup
    patcher.set(kind, "_start_coalescing", lambda group, device: None)
    patcher.set(kind, "_end_coalescing", lambda group, device: finished_work([]))
    # Functional collectives return a plain tensor where tensors are fake, as in a compiled program.
    patcher.set(FakeTensor, "wait", lambda tensor: tensor)
    # The group of all ranks would be split by the backend, which cannot; a new group is the same.
    patcher.set_if_present(distributed_c10d, "_is_safe_to_split", lambda: False)


_REDUCTIONS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
)


def _tell_reductions(patcher: Patcher, collectives: Collectives) -> None:
    """Whether ranks add, average or compare is in the options of the call."""

    def telling(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = [each.reduceOp for each in (*args, *kwargs.values()) if _has_reduction(each)]
            before = collectives.reduction
            if found:
                collectives.reduction = _name_of(found[0])
            try:
                return real(*args, **kwargs)
            finally:
                collectives.reduction = before

        return call

    kind = torch.distributed.ProcessGroup
    for name in _REDUCTIONS:
        if hasattr(kind, name):
            patcher.set(kind, name, telling(getattr(kind, name)))


def _has_reduction(value: Any) -> bool:
    return hasattr(value, "reduceOp")


def _name_of(operation: Any) -> str:
    """``sum``, ``avg`` and so on."""
    name = str(getattr(operation, "op", operation)).rpartition(".")[2]
    return name.lower()


def _register_backend() -> None:
    """Importing it registers it."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401
