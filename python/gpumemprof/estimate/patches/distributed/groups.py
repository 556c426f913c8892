"""Process groups: torch's own fake backend takes the place of NCCL, Gloo and all others.

Programs still see the backend that they asked for.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch.distributed import distributed_c10d

from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_FAKE = "fake"


def install(patcher: Patcher) -> None:
    _register_backend()
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
    # The group of all ranks would be split by the backend, which cannot; a new group is the same.
    patcher.set_if_present(distributed_c10d, "_is_safe_to_split", lambda: False)


def _register_backend() -> None:
    """Importing it registers it."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401
