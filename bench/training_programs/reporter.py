"""What the tensors of a program hold, written down at the moments that the program chooses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn


def parts_of(tensor: Any) -> list[torch.Tensor]:
    """The dense tensors inside a sharded or sparse one."""
    if hasattr(tensor, "to_local"):
        return parts_of(tensor.to_local())
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor]


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


class Reporter:
    """Writes down what each kind of tensor holds now, by storage, each counted once."""

    def __init__(self) -> None:
        self.moments: list[dict[str, int]] = []

    def __call__(
        self,
        models: Iterable[nn.Module] = (),
        optimizers: Iterable[Any] = (),
        inputs: Iterable[Any] = (),
        parameters: Iterable[Any] = (),
        gradients: Iterable[Any] = (),
    ) -> None:
        models = list(models)
        owned = [*parameters, *(p for model in models for p in model.parameters())]
        kinds = {
            "parameters": [*owned, *(b for model in models for b in model.buffers())],
            "gradients": [*gradients, *(p.grad for p in owned if p.grad is not None)],
            "optimizer_state": [
                t for o in optimizers for values in o.state.values() for t in tensors_in(values)
            ],
            "inputs": list(inputs),
        }
        seen: set[int] = set()
        moment: dict[str, int] = {}
        for kind, tensors in kinds.items():
            moment[kind] = 0
            for part in (part for tensor in tensors for part in parts_of(tensor)):
                storage = part.untyped_storage()
                if storage.nbytes() and storage.data_ptr() not in seen:
                    seen.add(storage.data_ptr())
                    moment[kind] += storage.nbytes()
        moment["time_ns"] = time.time_ns()
        self.moments.append(moment)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.moments))
