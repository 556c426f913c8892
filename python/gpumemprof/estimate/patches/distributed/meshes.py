"""DeviceMesh: its table of ranks is a real tensor, since it is read even where nothing is fake."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
from torch.distributed import device_mesh

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_METHODS = (
    "__init__",
    "__getitem__",
    "_flatten",
    "_unflatten",
    "_concatenate",
    "_get_all_submeshes",
    "from_group",
)


def install(patcher: Patcher, answers: Answers) -> None:
    def real(value: Any) -> Any:
        return answers.values(value) if isinstance(value, torch.Tensor) else value

    def for_real(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            args = tuple(real(each) for each in args)
            kwargs = {name: real(each) for name, each in kwargs.items()}
            with outside_modes():
                return function(*args, **kwargs)

        return run

    kind = device_mesh.DeviceMesh
    for name in _METHODS:
        found = vars(kind).get(name)
        if isinstance(found, staticmethod):
            patcher.set(kind, name, staticmethod(for_real(found.__func__)))
        elif found is not None:
            patcher.set(kind, name, for_real(found))
    found = vars(kind).get("mesh")
    if isinstance(found, property) and found.fget is not None:
        patcher.set(kind, "mesh", property(for_real(found.fget)))
    make = for_real(device_mesh.init_device_mesh)
    for owner in (device_mesh, torch.distributed):
        patcher.set_if_present(owner, "init_device_mesh", make)
