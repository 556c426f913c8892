"""Decompositions and solutions of linear systems."""

from __future__ import annotations

from typing import Callable

import torch

from estimate_cases.bodies import Body

Op = Callable[[torch.Tensor], Body]
MATRICES = (
    (200, 200),
    (33, 33),
    (8, 64, 64),
    (512, 512),
    (100, 16, 16),
    (1000, 1000),
    (2, 300, 300),
    (300, 100),
    (100, 300),
    (5, 20, 40),
)
FEW_LARGE = ((2048, 2048), (4096, 4096), (4, 1024, 1024), (5000, 3, 3))
L = torch.linalg


def positive(x: torch.Tensor) -> torch.Tensor:
    """A positive definite matrix of the size of the rows."""
    n = x.size(-2)
    with torch.no_grad():
        found = x @ x.mH + n * torch.eye(n, device=x.device, dtype=x.dtype)
    return found.requires_grad_()


def square(x: torch.Tensor) -> torch.Tensor:
    n = min(x.shape[-2:])
    return (x.detach()[..., :n, :n] + 2 * torch.eye(n, device=x.device)).requires_grad_()


def right(x: torch.Tensor, columns: int) -> torch.Tensor:
    return torch.ones(*x.shape[:-1], columns, device=x.device, dtype=x.dtype).requires_grad_()


def of(make: Callable[[torch.Tensor], torch.Tensor], run: Callable[[torch.Tensor], object]) -> Op:
    """Runs on what is made of the input."""

    def op(x: torch.Tensor) -> Body:
        made = make(x)
        return lambda: run(made)

    return op


def with_right(
    make: Callable[[torch.Tensor], torch.Tensor],
    run: Callable[[torch.Tensor, torch.Tensor], object],
    columns: int = 3,
) -> Op:
    def op(x: torch.Tensor) -> Body:
        made = make(x)
        b = right(made, columns)
        return lambda: run(made, b)

    return op


def factor(x: torch.Tensor) -> torch.Tensor:
    return L.cholesky(positive(x).detach()).requires_grad_()


def solved_with_lu(x: torch.Tensor) -> Body:
    lu, pivots = L.lu_factor(square(x).detach())
    b = right(lu, 3)
    return lambda: L.lu_solve(lu, pivots, b)


def linalg_ops() -> dict[str, Op]:
    return {
        "cholesky": of(positive, L.cholesky),
        "cholesky_upper": of(positive, lambda a: L.cholesky(a, upper=True)),
        "cholesky_ex": of(positive, lambda a: L.cholesky_ex(a)[0]),
        "cholesky_solve": with_right(factor, lambda f, b: torch.cholesky_solve(b, f)),
        "cholesky_solve_1": with_right(factor, lambda f, b: torch.cholesky_solve(b, f), 1),
        "cholesky_solve_many": with_right(factor, lambda f, b: torch.cholesky_solve(b, f), 130),
        "cholesky_inverse": of(factor, torch.cholesky_inverse),
        "triangular": with_right(factor, lambda f, b: L.solve_triangular(f, b, upper=False)),
        "triangular_1": with_right(factor, lambda f, b: L.solve_triangular(f, b, upper=False), 1),
        "triangular_many": with_right(
            factor, lambda f, b: L.solve_triangular(f, b, upper=False), 130
        ),
        "triangular_transposed": with_right(
            factor, lambda f, b: L.solve_triangular(f.mT, b, upper=True)
        ),
        "triangular_right": with_right(
            factor, lambda f, b: L.solve_triangular(f, b.mT, upper=False, left=False)
        ),
        "lu_factor": of(square, lambda a: L.lu_factor(a)[0]),
        "lu": of(square, lambda a: L.lu(a)[1:]),
        "lu_solve": solved_with_lu,
        "inv": of(square, L.inv),
        "inv_positive": of(positive, L.inv),
        "solve": with_right(square, L.solve),
        "solve_1": with_right(square, L.solve, 1),
        "solve_many": with_right(square, L.solve, 130),
        "det": of(square, L.det),
        "slogdet": of(positive, lambda a: L.slogdet(a)[1]),
        "logdet": of(positive, torch.logdet),
        "qr": lambda x: lambda: L.qr(x),
        "qr_r": lambda x: lambda: L.qr(x.detach(), mode="r"),
        "qr_complete": lambda x: lambda: L.qr(x.detach(), mode="complete"),
        "svd": lambda x: lambda: L.svd(x, full_matrices=False)[1],
        "svd_full": lambda x: lambda: L.svd(x.detach()),
        "svdvals": lambda x: lambda: L.svdvals(x),
        "eigh": of(positive, lambda a: L.eigh(a)[0]),
        "eigvalsh": of(positive, lambda a: L.eigvalsh(a)),
        "eig": of(square, lambda a: L.eigvals(a.detach())),
        "lstsq": with_right(lambda x: x, lambda a, b: L.lstsq(a, b)[0]),
        "pinv": lambda x: lambda: L.pinv(x),
        "pinv_hermitian": of(positive, lambda a: L.pinv(a, hermitian=True)),
        "matrix_rank": lambda x: lambda: L.matrix_rank(x.detach()),
        "matrix_norm": lambda x: lambda: L.matrix_norm(x),
        "matrix_norm_2": lambda x: lambda: L.matrix_norm(x, 2),
        "matrix_norm_nuc": lambda x: lambda: L.matrix_norm(x, "nuc"),
        "cond": of(square, lambda a: L.cond(a.detach())),
        "matrix_exp": of(square, lambda a: L.matrix_exp(a * 0.01)),
        "matrix_exp_large": of(square, lambda a: L.matrix_exp(a.detach())),
        "matrix_power": of(square, lambda a: L.matrix_power(a, 5)),
        "matrix_power_neg": of(square, lambda a: L.matrix_power(a, -2)),
        "ldl": of(positive, lambda a: L.ldl_factor(a.detach())),
        "mvn": of(
            factor,
            lambda f: torch.distributions.MultivariateNormal(
                f.new_zeros(f.size(-1)), scale_tril=f, validate_args=False
            ).log_prob(f.new_ones(f.size(-1))),
        ),
    }


def large_linalg_ops() -> dict[str, Op]:
    kept = (
        "cholesky",
        "cholesky_solve",
        "cholesky_solve_1",
        "triangular",
        "triangular_1",
        "inv",
        "solve",
        "lu_factor",
        "logdet",
        "qr",
        "eigh",
        "svdvals",
        "matrix_exp",
    )
    return {name: op for name, op in linalg_ops().items() if name in kept}
