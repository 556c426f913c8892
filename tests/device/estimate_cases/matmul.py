"""Matrix products: which calls take a cuBLAS or cuBLASLt workspace, per thread and stream."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any, Callable

import torch

Case = tuple[str, Callable[[], Callable[[], Any]]]
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "c64": torch.complex64,
}
SIZES = (
    (64, 128, 256),
    (1, 512, 512),
    (512, 1, 512),
    (512, 512, 1),
    (7, 9, 11),
    (1000, 1001, 8),
    (4096, 1024, 4096),
    (2, 2, 2),
    (8192, 64, 32),
    (100, 50, 10),
    (1, 1, 1),
)


def products(
    rows: int, inner: int, columns: int, dtype: torch.dtype, device: str
) -> dict[str, Any]:
    def new(*shape: int) -> torch.Tensor:
        return torch.ones(shape, dtype=dtype, device=device)

    a, b, bias = new(rows, inner), new(inner, columns), new(columns)
    bt, whole, vector = new(columns, inner).t(), new(rows, columns), new(inner)
    batched = new(4, rows, inner), new(4, inner, columns), new(4, rows, columns)
    every_second = new(rows, 2 * inner)[:, ::2]
    aten = torch.ops.aten
    return {
        "mm": lambda: torch.mm(a, b),
        "mm_t": lambda: torch.mm(a, bt),
        "mm_strided": lambda: torch.mm(every_second, b),
        "mm_out": lambda: torch.mm(a, b, out=whole),
        "addmm": lambda: torch.addmm(bias, a, b),
        "addmm_t": lambda: torch.addmm(bias, a, bt),
        "addmm_beta": lambda: torch.addmm(bias, a, b, beta=0.5),
        "addmm_alpha": lambda: torch.addmm(bias, a, b, alpha=0.5),
        "addmm_row": lambda: torch.addmm(bias[None], a, b),
        "addmm_2d": lambda: torch.addmm(whole, a, b),
        "addmm_strided": lambda: torch.addmm(bias, every_second, b),
        "addmm_": lambda: whole.addmm_(a, b),
        "addmm_relu": lambda: aten._addmm_activation(bias, a, b),
        "addmm_gelu": lambda: aten._addmm_activation(bias, a, b, use_gelu=True),
        "linear": lambda: torch.nn.functional.linear(a, b.t(), bias),
        "linear_3d": lambda: torch.nn.functional.linear(batched[0], b.t(), bias),
        "linear_3d_nobias": lambda: torch.nn.functional.linear(batched[0], b.t()),
        "bmm": lambda: torch.bmm(batched[0], batched[1]),
        "bmm_t": lambda: torch.bmm(batched[0], new(4, columns, inner).transpose(1, 2)),
        "bmm_broadcast": lambda: torch.bmm(a.expand(4, rows, inner), batched[1]),
        "baddbmm": lambda: torch.baddbmm(batched[2], batched[0], batched[1]),
        "baddbmm_broadcast": lambda: torch.baddbmm(whole, batched[0], batched[1]),
        "addbmm": lambda: torch.addbmm(whole, batched[0], batched[1]),
        "mv": lambda: torch.mv(a, vector),
        "addmv": lambda: torch.addmv(new(rows), a, vector),
        "dot": lambda: torch.dot(vector, vector),
        "addr": lambda: torch.addr(whole, new(rows), bias),
        "outer": lambda: torch.outer(new(rows), bias),
        "einsum": lambda: torch.einsum("bij,bjk->bik", batched[0], batched[1]),
        "einsum_heads": lambda: torch.einsum("bic,bjc->bij", batched[0], batched[0]),
    }


def scaled(device: str, kind: str) -> Callable[[], Any]:
    if kind == "int8":
        a = torch.ones(64, 128, dtype=torch.int8, device=device)
        return lambda: torch._int_mm(a, a.new_ones(256, 128).t())
    a = torch.ones(64, 128, device=device).to(torch.float8_e4m3fn)
    b = torch.ones(256, 128, device=device).to(torch.float8_e4m3fn).t()
    if kind == "rowwise":
        scales = torch.ones(64, 1, device=device), torch.ones(1, 256, device=device)
    else:
        scales = torch.ones((), device=device), torch.ones((), device=device)
    return lambda: torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16)


def fresh(body: Callable[[], Any]) -> Callable[[], Any]:
    """The same body in a process state without cuBLAS workspaces."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
    return body


def in_thread(body: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        kept: list[Any] = []
        thread = threading.Thread(target=lambda: kept.append(body()))
        thread.start()
        thread.join()
        return kept

    return run


def on_stream(body: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with torch.cuda.stream(torch.cuda.Stream()):
            return body()

    return run


def training_step(device: str, dtype: torch.dtype, width: int) -> Callable[[], Any]:
    net = torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width), torch.nn.ReLU(), torch.nn.Linear(2 * width, 10)
    ).to(device, dtype)
    x = torch.ones(32, width, dtype=dtype, device=device)
    return lambda: net(x).sum().backward()


def cases(device: str, seed: int = 0) -> Iterator[Case]:
    for name, size in itertools.product(DTYPES, SIZES):
        dtype = DTYPES[name]
        for kind in products(2, 2, 2, dtype, device):
            label = f"{kind} {name} {'x'.join(map(str, size))}"
            yield (
                f"fresh {label}",
                lambda k=kind, s=size, d=dtype: fresh(products(*s, d, device)[k]),
            )
    for name, kind in itertools.product(DTYPES, ("mm", "addmm", "bmm", "mv", "dot")):
        dtype = DTYPES[name]
        for place, move in (("thread", in_thread), ("stream", on_stream)):
            yield (
                f"fresh {place} {kind} {name}",
                lambda k=kind, d=dtype, m=move: fresh(m(products(64, 128, 256, d, device)[k])),
            )
    for name in ("f32", "bf16"):
        for times in range(2):
            yield (
                f"training step {name} {times}",
                lambda d=DTYPES[name], t=times: (
                    training_step(device, d, 64) if t else fresh(training_step(device, d, 64))
                ),
            )
    for kind in ("int8", "tensorwise", "rowwise"):
        yield f"fresh scaled {kind}", lambda k=kind: fresh(scaled(device, k))
