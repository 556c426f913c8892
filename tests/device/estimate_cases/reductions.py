"""Reductions, scans, sorts and softmax over many shapes, dims, types and layouts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Callable

import torch

Case = tuple[str, Callable[[], Callable[[], Any]]]
DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "b8": torch.bool,
}
SHAPES = (
    (100,),
    (1000,),
    (5000,),
    (65536,),
    (1000000,),
    (10000000,),
    (64, 10),
    (64, 1000),
    (1000, 64),
    (4096, 768),
    (768, 4096),
    (32, 50257),
    (8192, 50257),
    (100000, 16),
    (16, 100000),
    (3, 5000000),
    (8, 512, 768),
    (32, 128, 768),
    (4, 1024, 1024),
    (2, 77, 50),
    (8, 12, 128, 128),
    (32, 64, 56, 56),
    (8, 3, 224, 224),
    (2, 256, 64, 64),
    (4, 512, 7, 7),
    (1, 1),
    (3, 1, 5),
    (2, 8, 16, 32, 32),
)
FLOAT_OPS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "mean": lambda x, d: x.mean(d),
    "var": lambda x, d: x.var(d),
    "std": lambda x, d: x.std(d),
    "var_mean": lambda x, d: torch.var_mean(x, d),
    "norm": lambda x, d: torch.linalg.vector_norm(x, 2, d),
    "norm1": lambda x, d: torch.linalg.vector_norm(x, 1, d),
    "norminf": lambda x, d: torch.linalg.vector_norm(x, float("inf"), d),
    "logsumexp": lambda x, d: torch.logsumexp(x, d if d is not None else list(range(x.dim()))),
    "nansum": lambda x, d: torch.nansum(x, d),
    "sum_f32": lambda x, d: x.sum(d, dtype=torch.float32),
}
ANY_OPS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "sum": lambda x, d: x.sum(d),
    "sum_keep": lambda x, d: x.sum(d if d is not None else (), keepdim=True),
    "amax": lambda x, d: x.amax(d if d is not None else ()),
    "any": lambda x, d: x.any() if d is None else x.any(d),
    "all": lambda x, d: x.all() if d is None else x.all(d),
    "count_nonzero": lambda x, d: torch.count_nonzero(x, d),
}
ONE_DIM: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "max": lambda x, d: x.max(d),
    "min": lambda x, d: x.min(d),
    "argmax": lambda x, d: x.argmax(d),
    "prod": lambda x, d: x.prod(d),
    "aminmax": lambda x, d: torch.aminmax(x, dim=d),
    "cumsum": lambda x, d: x.cumsum(d),
    "cummax": lambda x, d: x.cummax(d),
    "sort": lambda x, d: x.sort(d),
    "sort_stable": lambda x, d: x.sort(stable=True, dim=d),
    "sort_down": lambda x, d: x.sort(d, descending=True),
    "argsort": lambda x, d: x.argsort(d),
    "topk1": lambda x, d: x.topk(1, d),
    "topk": lambda x, d: x.topk(min(5, x.size(d)), d),
    "topk50": lambda x, d: x.topk(min(50, x.size(d)), d),
    "topk_half": lambda x, d: x.topk((x.size(d) + 1) // 2, d),
    "kthvalue": lambda x, d: x.kthvalue(1 + x.size(d) // 3, d),
    "median": lambda x, d: x.median(d),
}
FLOAT_ONE_DIM: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "softmax_f32": lambda x, d: x.softmax(d, dtype=torch.float32),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "quantile": lambda x, d: x.float().quantile(0.3, d),
}
WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(),
    "prod": lambda x: x.prod(),
    "median": lambda x: x.median(),
    "unique": lambda x: x.unique(),
    "nonzero": lambda x: x.nonzero(),
    "unique_inverse": lambda x: x.unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "flatten_sort": lambda x: x.flatten().sort(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "where": lambda x: torch.where(x > 0),
    "index_bool": lambda x: x[x > 0],
    "aminmax": lambda x: torch.aminmax(x),
    "argwhere": lambda x: torch.argwhere(x),
}


def make(shape: tuple[int, ...], dtype: str, layout: str, device: str) -> torch.Tensor:
    kept = DTYPES[dtype]
    floating = kept.is_floating_point
    x = (
        torch.randn(shape, device=device)
        if floating
        else torch.randint(0, 50, shape, device=device)
    )
    x = x.to(kept)
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "last" and x.dim() == 4:
        return x.to(memory_format=torch.channels_last)
    if layout == "swapped" and x.dim() > 2:
        return x.transpose(0, 1)
    if layout == "expanded":
        return x[:1].expand(shape)
    if layout == "sliced" and x.size(-1) > 2:
        return x[..., 1:]
    return x


def case(device: str, kind: str, run: Callable[..., Any], options: tuple[Any, ...]) -> Case:
    shape, dtype, layout, dims, grad = options
    name = f"{kind} {dtype} {layout} {shape} {dims} {grad}"

    def setup() -> Callable[[], Any]:
        x = make(shape, dtype, layout, device)
        if grad and x.is_floating_point():
            x = x.detach().requires_grad_()

        def body() -> Any:
            out = run(x) if dims == "whole" else run(x, dims)
            first = out if isinstance(out, torch.Tensor) else out[0]
            if first.requires_grad:
                first.backward(torch.ones_like(first))
            return out

        return body

    return name, setup


def cases(device: str, seed: int = 0) -> Iterator[Case]:
    chooser = random.Random(seed)
    layouts = ("plain", "plain", "plain", "transposed", "last", "swapped", "expanded", "sliced")
    while True:
        shape = chooser.choice(SHAPES)
        if chooser.random() < 0.6:
            shape = tuple(max(1, int(side * chooser.uniform(0.3, 1.6))) for side in shape)
        dtype = chooser.choice(
            ("f32", "f32", "f32", "bf16", "bf16", "f16", "f64", "i64", "i32", "b8")
        )
        layout = chooser.choice(layouts)
        floating = DTYPES[dtype].is_floating_point
        family = chooser.randrange(5)
        dims: Any = None
        ops: dict[str, Any]
        if family <= 1:
            ops = {**ANY_OPS, **(FLOAT_OPS if floating else {})}
            if chooser.random() < 0.8:
                count = chooser.randint(1, len(shape))
                dims = sorted(chooser.sample(range(len(shape)), count))
        elif family <= 3:
            ops = {**ONE_DIM, **(FLOAT_ONE_DIM if floating else {})}
            dims = chooser.choice((-1, -1, 0, chooser.randrange(len(shape))))
        else:
            ops, dims = WHOLE, "whole"
        kind = chooser.choice(sorted(ops))
        yield case(device, kind, ops[kind], (shape, dtype, layout, dims, chooser.random() < 0.4))
