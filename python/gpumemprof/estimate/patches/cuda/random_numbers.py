"""Random number generators on the device: generators of the CPU take their place."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_STATE_BYTES = 16  # seed and offset


def _state(*_: Any, **__: Any) -> torch.Tensor:
    with outside_modes():
        return torch.zeros(_STATE_BYTES, dtype=torch.uint8)


class _GeneratorMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class Generator(torch._C.Generator):  # type: ignore[misc]
    """A generator of the CPU that says it is on the device it was made for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        self = super().__new__(cls, "cpu")
        self._device = torch.device(device)
        return self

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        found = self._device
        if found.type == "cuda" and found.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return found


def install(patcher: Patcher, device: Device) -> None:
    random = torch.cuda.random
    nothing: dict[str, Any] = {
        name: lambda *_, **__: None
        for name in (
            "set_rng_state",
            "set_rng_state_all",
            "manual_seed",
            "manual_seed_all",
            "seed",
            "seed_all",
        )
    }
    answers = {
        **nothing,
        "get_rng_state": _state,
        "get_rng_state_all": lambda: [_state() for _ in range(device.count)],
        "initial_seed": lambda: 0,
    }
    for owner in (torch.cuda, random):
        for name, answer in answers.items():
            patcher.set_if_present(owner, name, answer)
    generators = tuple(Generator(torch.device("cuda", index)) for index in range(device.count))
    patcher.set(torch.cuda, "default_generators", generators)
    patcher.set(torch, "Generator", Generator)
