"""Operations beyond the usual layers: linear algebra, transforms, indices, pooling, sampling.

Each family is a table of functions: a function gets an input, prepares what else is needed, and
returns what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_leaves

from estimate_cases.bodies import Body, Case
from estimate_cases.graph_ops import GRAPHS, SPARSE, graph_ops, sparse_ops
from estimate_cases.index_ops import COUNTED, FLAT, counted_ops, index_ops
from estimate_cases.linear_algebra import FEW_LARGE, MATRICES, large_linalg_ops, linalg_ops
from estimate_cases.loss_ops import LOSSES, loss_ops
from estimate_cases.signal_ops import IMAGES, SERIES, VOLUMES, image_ops, series_ops, volume_ops

Op = Callable[[torch.Tensor], Body]
F32, F64, BF16, C64 = torch.float32, torch.float64, torch.bfloat16, torch.complex64


def with_backward(out: Any) -> Any:
    """Backward from all results that have a gradient."""
    ends = [each for each in tree_leaves(out) if isinstance(each, torch.Tensor)]
    ends = [each for each in ends if each.requires_grad and each.layout == torch.strided]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(each) for each in ends])
    return out


def family(
    device: str,
    name: str,
    ops: Mapping[str, Op],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[torch.dtype],
) -> Iterator[Case]:
    for shape in shapes:
        for dtype in dtypes:
            for kind, op in ops.items():

                def setup(
                    op: Op = op, shape: tuple[int, ...] = shape, dtype: torch.dtype = dtype
                ) -> Body:
                    torch.manual_seed(0)
                    body = op(torch.randn(shape, device=device, dtype=dtype).requires_grad_())
                    return lambda: with_backward(body())

                yield f"{name} {kind} {dtype} {shape}", setup


def empty_dimension_cases(device: str) -> Iterator[Case]:
    """Reductions of a single number, and of no dimensions."""
    ops: dict[str, Op] = {
        "sum": lambda x: lambda: x.sum(),
        "mean": lambda x: lambda: x.mean(),
        "var": lambda x: lambda: x.var(unbiased=False),
        "amax": lambda x: lambda: x.amax(),
        "argmax": lambda x: lambda: x.argmax(),
        "any": lambda x: lambda: x.any(),
        "norm": lambda x: lambda: torch.linalg.vector_norm(x),
        "sort": lambda x: lambda: x.sort(),
        "cumsum": lambda x: lambda: x.cumsum(0),
        "unique": lambda x: lambda: x.detach().unique(),
        "median": lambda x: lambda: x.median(),
    }
    yield from family(device, "single", ops, [()], [F32, F64])


def cases(device: str) -> Iterator[Case]:
    yield from empty_dimension_cases(device)
    yield from family(device, "linalg", linalg_ops(), MATRICES, [F32])
    yield from family(device, "series", series_ops(), SERIES, [F32])
    yield from family(device, "volume", volume_ops(), VOLUMES, [F32, BF16])
    yield from family(device, "images", image_ops(), IMAGES, [F32, BF16])
    yield from family(device, "index", index_ops(), FLAT, [F32, BF16])
    yield from family(device, "counted", counted_ops(), COUNTED, [F32])
    yield from family(device, "loss", loss_ops(), LOSSES, [F32, BF16])
    yield from family(device, "graph", graph_ops(), GRAPHS, [F32])
    yield from family(device, "sparse", sparse_ops(), SPARSE, [F32])
    yield from family(device, "linalg", linalg_ops(), MATRICES[::2], [F64, C64])
    yield from family(device, "linalg", large_linalg_ops(), FEW_LARGE, [F32, F64])
