"""Scaled dot product attention: which kernel torch takes and what it allocates."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

Case = tuple[str, Callable[[], Callable[[], Any]]]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
MASKS = (
    "none",
    "causal",
    "bool",
    "float",
    "floatgrad",
    "bool11",
    "boolb1",
    "bool2d",
    "float1",
    "f32",
)
HEAD_SIZES = (8, 32, 40, 64, 80, 96, 128, 192, 256, 20, 33)
LENGTHS = (
    (128, 128),
    (1, 128),
    (77, 256),
    (100, 100),
    (512, 512),
    (333, 777),
    (1024, 1024),
    (128, 1),
)
LAYOUTS = ("bhld", "blhd", "packed")
HEADS = ((2, 4), (3, 12))


def tensor_in_layout(
    layout: str, shape: tuple[int, int, int, int], dtype: torch.dtype, device: str
) -> torch.Tensor:
    batch, heads, length, size = shape
    if layout == "bhld":
        return torch.randn(shape, dtype=dtype, device=device)
    if layout == "blhd":
        return torch.randn(batch, length, heads, size, dtype=dtype, device=device).transpose(1, 2)
    packed = torch.randn(batch, length, 3, heads, size, dtype=dtype, device=device)
    return packed[:, :, 1].transpose(1, 2)


def make_mask(kind: str, shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> Any:
    batch, _heads, rows, columns = shape
    sizes = {
        "bool11": (1, 1, rows, columns),
        "boolb1": (batch, 1, 1, columns),
        "bool2d": (rows, columns),
        "float1": (1, 1, rows, columns),
    }.get(kind, shape)
    if kind in ("none", "causal"):
        return None
    if kind.startswith("bool"):
        return torch.ones(sizes, dtype=torch.bool, device=device)
    kept = torch.float32 if kind == "f32" else dtype
    return torch.zeros(sizes, dtype=kept, device=device, requires_grad=kind == "floatgrad")


def case(device: str, options: tuple[Any, ...]) -> Case:
    dtype_name, mask_kind, dropout, groups, size, lengths, layout, heads, grad = options
    name = "attention " + " ".join(map(str, options))

    def setup() -> Callable[[], Any]:
        dtype = DTYPES[dtype_name]
        batch, count = heads
        q = tensor_in_layout(layout, (batch, count, lengths[0], size), dtype, device)
        k = tensor_in_layout(layout, (batch, count // groups, lengths[1], size), dtype, device)
        v = tensor_in_layout(layout, (batch, count // groups, lengths[1], size), dtype, device)
        for tensor in (q, k, v):
            tensor.requires_grad_(grad)
        mask = make_mask(mask_kind, (batch, count, *lengths), dtype, device)

        def body() -> Any:
            out = F.scaled_dot_product_attention(
                q, k, v, mask, dropout, mask_kind == "causal", enable_gqa=groups > 1
            )
            if out.requires_grad:
                out.backward(torch.ones_like(out))
            return out

        return body

    return name, setup


def cases(device: str, seed: int = 0) -> Iterator[Case]:
    """First a small full product, then a random walk through the large one."""
    core = itertools.product(
        DTYPES,
        MASKS,
        (0.0, 0.1),
        (1, 2),
        (64, 128, 80),
        ((128, 128), (77, 256)),
        ("blhd",),
        ((2, 4),),
        (True, False),
    )
    wide = list(
        itertools.product(
            DTYPES, MASKS, (0.0, 0.1), (1, 2), HEAD_SIZES, LENGTHS, LAYOUTS, HEADS, (True, False)
        )
    )
    chooser = random.Random(seed)
    first = list(core)
    chooser.shuffle(first)
    chooser.shuffle(wide)
    for options in first + wide:
        yield case(device, options)
