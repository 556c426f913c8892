"""Operations that read and write by index, sort, sample and count."""

from __future__ import annotations

from typing import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from estimate_cases.bodies import Body

Op = Callable[[torch.Tensor], Body]
FLAT = ((50, 16), (1000, 64), (5000, 8), (20000, 100), (300, 1000), (100000, 3))
COUNTED = ((100,), (2000,), (5000,), (50000,), (1000000,), (40, 50))


def targets(x: torch.Tensor, rows: int, groups: int = 4) -> torch.Tensor:
    """A row number below rows // groups for each of the rows."""
    return torch.randint(0, max(1, rows // groups), (x.size(0),), device=x.device)


def by_row(run: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> Op:
    """With row numbers, and zeros with as many rows as they can name."""

    def op(x: torch.Tensor) -> Body:
        rows = targets(x, x.size(0))
        zeros = torch.zeros(max(1, x.size(0) // 4), x.size(1), device=x.device, dtype=x.dtype)
        return lambda: run(x, rows, zeros)

    return op


def wide(rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return rows[:, None].expand_as(x)


def bag(mode: str, **options: object) -> Op:
    def op(x: torch.Tensor) -> Body:
        count = 4 * x.size(0)
        words = torch.randint(0, x.size(0), (count,), device=x.device)
        offsets = torch.arange(0, count, 5, device=x.device)
        return lambda: F.embedding_bag(words, x, offsets, mode=mode, **options)

    return op


def weighted_bag(x: torch.Tensor) -> Body:
    words = torch.randint(0, x.size(0), (2 * x.size(0),), device=x.device)
    weights = torch.rand(words.shape, device=x.device, dtype=x.dtype).requires_grad_()
    offsets = torch.arange(0, words.numel(), 5, device=x.device)
    return lambda: F.embedding_bag(words, x, offsets, mode="sum", per_sample_weights=weights)


def segments(reduce: str) -> Op:
    def op(x: torch.Tensor) -> Body:
        lengths = torch.full((x.size(0) // 5,), 5, device=x.device)
        rows = x.detach()[: 5 * len(lengths)].float().requires_grad_()
        return lambda: torch.segment_reduce(rows, reduce, lengths=lengths)

    return op


def index_ops() -> dict[str, Op]:
    return {
        "index_add": by_row(lambda x, i, z: z.index_add(0, i, x)),
        "index_add_": by_row(lambda x, i, z: z.index_add_(0, i, x.detach())),
        "index_add_cols": lambda x: (
            lambda: torch.zeros_like(x).index_add(1, torch.arange(x.size(1), device=x.device), x)
        ),
        "scatter_add": by_row(lambda x, i, z: z.scatter_add(0, wide(i, x), x)),
        "scatter_add_": by_row(lambda x, i, z: z.scatter_add_(0, wide(i, x), x.detach())),
        "scatter_sum": by_row(lambda x, i, z: z.scatter_reduce(0, wide(i, x), x, "sum")),
        "scatter_mean": by_row(lambda x, i, z: z.scatter_reduce(0, wide(i, x), x, "mean")),
        "scatter_amax": by_row(lambda x, i, z: z.scatter_reduce(0, wide(i, x), x, "amax")),
        "scatter_amin_": by_row(
            lambda x, i, z: z.scatter_reduce_(0, wide(i, x), x.detach(), "amin")
        ),
        "scatter": by_row(lambda x, i, z: z.scatter(0, wide(i, x), x)),
        "index_reduce": by_row(lambda x, i, z: z.index_reduce(0, i, x, "amax")),
        "index_reduce_mean": by_row(lambda x, i, z: z.index_reduce(0, i, x.detach(), "mean")),
        "index_copy": by_row(lambda x, i, z: z.index_copy(0, i, x)),
        "index_fill": by_row(lambda x, i, z: x.index_fill(0, i, 1.0)),
        "index_put": by_row(lambda x, i, z: z.index_put((i,), x)),
        "index_put_add": by_row(lambda x, i, z: z.index_put((i,), x, accumulate=True)),
        "index_put_add_": by_row(lambda x, i, z: z.index_put_((i,), x.detach(), accumulate=True)),
        "index_put_two": by_row(
            lambda x, i, z: z.index_put((i, i % z.size(1)), x[:, 0], accumulate=True)
        ),
        "index_rows": by_row(lambda x, i, z: x[i]),
        "index_pairs": by_row(lambda x, i, z: x[i, i % x.size(1)]),
        "index_columns": lambda x: lambda: x[:, torch.arange(0, x.size(1), 2, device=x.device)],
        "index_select": by_row(lambda x, i, z: x.index_select(0, i)),
        "gather": by_row(lambda x, i, z: x.gather(0, wide(i, x))),
        "take": by_row(lambda x, i, z: x.take(i)),
        "put": by_row(lambda x, i, z: x.put(i, x[:, 0].detach(), accumulate=True)),
        "take_along": by_row(lambda x, i, z: x.take_along_dim(i[:, None] % x.size(1), 1)),
        "masked_select": lambda x: lambda: x.masked_select(x > 0),
        "masked_index": lambda x: lambda: x[x[:, 0] > 0],
        "masked_put": lambda x: lambda: x.detach().clone().masked_fill_(x > 0, 0.0),
        "masked_assign": lambda x: lambda: x.detach().clone().index_put_((x > 0,), x.new_zeros(())),
        "masked_scatter": lambda x: lambda: torch.zeros_like(x).masked_scatter(x > 0, x),
        "where_index": lambda x: lambda: torch.where(x > 0),
        "nonzero": lambda x: lambda: (x > 0).nonzero(),
        "nonzero_static": lambda x: lambda: torch.nonzero_static(x > 0, size=10),
        "one_hot": by_row(lambda x, i, z: F.one_hot(i)),
        "embedding": by_row(lambda x, i, z: F.embedding(i, x)),
        "embedding_renorm": by_row(lambda x, i, z: F.embedding(i, x.detach(), max_norm=1.0)),
        "bag_sum": bag("sum"),
        "bag_mean": bag("mean"),
        "bag_max": bag("max"),
        "bag_sparse": bag("sum", sparse=True),
        "bag_weights": weighted_bag,
        "embedding_sparse": by_row(lambda x, i, z: F.embedding(i, x, sparse=True)),
        "segment_sum": segments("sum"),
        "segment_max": segments("max"),
        **row_products(),
    }


def row_products() -> dict[str, Op]:
    return {
        "sort_rows": lambda x: lambda: x.sort(0),
        "sort_columns": lambda x: lambda: x.sort(1, descending=True),
        "argsort_stable": lambda x: lambda: x.argsort(dim=0, stable=True),
        "topk": lambda x: lambda: x.topk(5, 1) if x.size(1) > 5 else x.topk(2, 1),
        "topk_rows": lambda x: lambda: x.topk(20, 0),
        "unique_rows": by_row(lambda x, i, z: torch.unique((x > 0).int(), dim=0)),
        "multinomial": lambda x: lambda: torch.multinomial(x.detach().float().abs() + 0.1, 2),
        "multinomial_1": lambda x: lambda: torch.multinomial(x.detach().float().softmax(1), 1),
        "multinomial_again": lambda x: (
            lambda: torch.multinomial(x.detach().float().abs() + 0.1, 9, replacement=True)
        ),
        "categorical": lambda x: (
            lambda: torch.distributions.Categorical(logits=x.detach().float()).sample()
        ),
        "cdist": lambda x: lambda: torch.cdist(x[:700].float(), x[:300].float()),
        "cdist_small": lambda x: lambda: torch.cdist(x[:20].float(), x[:24].float()),
        "cdist_1": lambda x: lambda: torch.cdist(x[:100].float(), x[:60].float(), p=1.0),
        "cdist_batch": lambda x: (
            lambda: torch.cdist(x[:48].float().expand(3, -1, -1), x[:40].float().expand(3, -1, -1))
        ),
        "pdist": lambda x: lambda: F.pdist(x[:200].float()),
        "corrcoef": lambda x: lambda: torch.corrcoef(x[:50].float()),
        "cov": lambda x: lambda: x[:50].float().cov(),
        "bilinear": lambda x: (
            lambda: F.bilinear(
                x[:100, :3].float(), x[:100, :3].float(), torch.ones(7, 3, 3, device=x.device)
            )
        ),
        "kron": lambda x: lambda: torch.kron(x[:8, :3], x[:5, :3]),
        "block_diag": lambda x: lambda: torch.block_diag(x[:50], x[:30]),
        "tensordot": lambda x: lambda: torch.tensordot(x[:200], x[:100], dims=([1], [1])),
        "mv": lambda x: lambda: x.float() @ x[0].float(),
        "vander": lambda x: lambda: torch.vander(x[:, 0].detach(), 5),
        "cartesian": lambda x: lambda: torch.cartesian_prod(x[:30, 0], x[:40, 1]),
        "combinations": lambda x: lambda: torch.combinations(x[:40, 0].detach()),
        "histc": lambda x: lambda: torch.histc(x.detach().float(), 50),
        "norm_rows": lambda x: lambda: F.normalize(x, dim=1),
        "argmax": lambda x: lambda: x.argmax(1),
        "max_rows": lambda x: lambda: x.max(0),
        "lexsort": by_row(lambda x, i, z: i.sort(stable=True)),
    }


def integers(x: torch.Tensor, most: int = 100) -> torch.Tensor:
    return (x.detach().abs() * most / 4).long().clamp(max=most - 1)


def counted_ops() -> dict[str, Op]:
    """Operations on one list of numbers."""
    return {
        "bincount": lambda x: lambda: torch.bincount(integers(x).flatten()),
        "bincount_least": lambda x: lambda: torch.bincount(integers(x).flatten(), minlength=500),
        "bincount_weights": lambda x: (
            lambda: torch.bincount(integers(x).flatten(), weights=x.detach().flatten())
        ),
        "histc": lambda x: lambda: torch.histc(x.detach(), 100, -3, 3),
        "histc_range": lambda x: lambda: torch.histc(x.detach(), 64),
        "unique": lambda x: lambda: integers(x).unique(),
        "unique_all": lambda x: lambda: integers(x).unique(return_inverse=True, return_counts=True),
        "unique_float": lambda x: lambda: x.detach().unique(),
        "unique_consecutive": lambda x: lambda: integers(x).unique_consecutive(return_counts=True),
        "sort_int": lambda x: lambda: integers(x).sort(),
        "sort_bool": lambda x: lambda: (x > 0).sort(),
        "sort": lambda x: lambda: x.sort(),
        "sort_half": lambda x: lambda: x.detach().bfloat16().sort(),
        "argsort_int32": lambda x: lambda: integers(x).int().argsort(),
        "topk": lambda x: lambda: x.topk(20, -1),
        "topk_many": lambda x: lambda: x.topk(x.size(-1) // 2, -1),
        "kthvalue": lambda x: lambda: x.kthvalue(7, -1),
        "median_all": lambda x: lambda: x.median(),
        "quantile": lambda x: lambda: x.flatten().quantile(0.5),
        "mode": lambda x: lambda: integers(x).mode(-1),
        "searchsorted": lambda x: lambda: torch.searchsorted(x.detach().sort().values, x.detach()),
        "bucketize": lambda x: (
            lambda: torch.bucketize(x.detach(), torch.linspace(-3, 3, 20, device=x.device))
        ),
        "isin": lambda x: lambda: torch.isin(integers(x), torch.arange(5, device=x.device)),
        "isin_many": lambda x: lambda: torch.isin(integers(x), torch.arange(500, device=x.device)),
        "repeat_interleave": lambda x: lambda: torch.repeat_interleave(integers(x, 4).flatten()),
        "repeat_rows": lambda x: lambda: x.flatten().repeat_interleave(integers(x, 4).flatten()),
        "randperm": lambda x: lambda: torch.randperm(x.numel(), device=x.device),
        "randint": lambda x: lambda: torch.randint(0, 5, x.shape, device=x.device),
        "cumsum_int": lambda x: lambda: integers(x).cumsum(-1),
        "cumsum_bool": lambda x: lambda: (x > 0).cumsum(-1),
        "cummax": lambda x: lambda: x.cummax(-1),
        "logcumsumexp": lambda x: lambda: x.logcumsumexp(-1),
        "masked_select": lambda x: lambda: x[x > 0.5],
        "nonzero": lambda x: lambda: integers(x).nonzero(),
        "equal": lambda x: lambda: torch.tensor(torch.equal(x.detach(), x.detach() + 1)),
        "allclose": lambda x: lambda: torch.tensor(torch.allclose(x.detach(), x.detach())),
        "trapezoid": lambda x: lambda: torch.trapezoid(x, dim=-1),
        "dot": lambda x: lambda: x.flatten() @ x.flatten(),
        "std": lambda x: lambda: x.std(),
        "logsumexp": lambda x: lambda: x.logsumexp(-1),
        "aminmax": lambda x: lambda: x.detach().aminmax(),
        "argmax": lambda x: lambda: x.argmax(),
        "count_nonzero": lambda x: lambda: (x > 0).count_nonzero(),
        "sum_int": lambda x: lambda: integers(x).sum(),
        "mean_bool": lambda x: lambda: (x > 0).float().mean(),
        "item_scale": lambda x: lambda: x * x.detach().max().item(),
        "renorm": lambda x: lambda: torch.nn.utils.parameters_to_vector([x, x]),
    }
