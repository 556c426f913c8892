"""Norms, losses, pooling, resizing, indexing, embeddings, optimizers, fft, linear algebra."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import nn

from estimate_cases.bodies import Body, Case, backward
from estimate_cases.image_ops import image_ops
from estimate_cases.row_ops import row_ops

IMAGES = (
    (2, 64, 56, 56),
    (8, 32, 32, 32),
    (4, 256, 14, 14),
    (32, 3, 64, 64),
    (2, 512, 7, 7),
    (16, 8, 100, 100),
)
ROWS = (
    (64, 10),
    (512, 1000),
    (4096, 768),
    (8, 512, 768),
    (2048, 50257),
    (4, 77, 300),
    (32, 128, 64),
)


def embedding_case(device: str, options: tuple[Any, ...]) -> Case:
    words, size, count, dtype, kind = options

    def setup() -> Body:
        table = torch.zeros(words, size, device=device, dtype=dtype, requires_grad=True)
        index = torch.randint(0, words, (count,), device=device)
        if kind == "strided":
            index = torch.randint(0, words, (count, 2), device=device)[:, 0]
        if kind == "bag":
            offsets = torch.arange(0, count, 4, device=device)
            return lambda: backward(F.embedding_bag(index, table, offsets))
        if kind == "frequency":
            return lambda: backward(F.embedding(index, table, scale_grad_by_freq=True))
        if kind == "sparse":
            return lambda: backward(F.embedding(index, table, sparse=True))
        if kind == "padding":
            return lambda: backward(F.embedding(index, table, padding_idx=0))
        return lambda: backward(F.embedding(index, table))

    return f"embedding {' '.join(map(str, options))}", setup


def optimizer_case(device: str, name: str, how: str, dtype: torch.dtype) -> Case:
    def setup() -> Body:
        net = nn.Sequential(nn.Linear(100, 200), nn.LayerNorm(200), nn.Linear(200, 300)).to(
            device, dtype
        )
        options: dict[str, Any] = {"lr": 1e-3}
        if name == "SGD" and how != "loop":
            options["momentum"] = 0.9
        if how != "default":
            options.update(
                {"loop": {"foreach": False}, "foreach": {"foreach": True}}.get(how, {how: True})
            )
        optimizer = getattr(torch.optim, name)(net.parameters(), **options)
        x = torch.ones(32, 100, device=device, dtype=dtype)

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            value = net(x).square().mean()
            value.backward()
            return value

        def body() -> Any:
            for _ in range(2):
                if name == "LBFGS":
                    optimizer.step(loss)
                else:
                    loss()
                    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
            return net

        return body

    return f"optimizer {name} {how} {dtype}", setup


def scaler_case(device: str) -> Case:
    def setup() -> Body:
        net = nn.Linear(100, 100).to(device)
        optimizer = torch.optim.AdamW(net.parameters())
        scaler = torch.amp.GradScaler("cuda")

        def body() -> Any:
            for _ in range(2):
                with torch.autocast("cuda", dtype=torch.float16):
                    value = net(torch.ones(8, 100, device=device)).mean()
                scaler.scale(value).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            return net

        return body

    return "grad scaler", setup


def linalg_ops(x: torch.Tensor) -> dict[str, Body]:
    n = x.size(-1)
    positive = (x @ x.mT + n * torch.eye(n, device=x.device)).detach().requires_grad_()
    b = torch.ones(*x.shape[:-1], 3, device=x.device)
    L = torch.linalg  # noqa: N806  (torch's own name is long)
    return {
        "cholesky": lambda: L.cholesky(positive),
        "inv": lambda: L.inv(positive),
        "solve": lambda: L.solve(positive, b),
        "qr": lambda: L.qr(x)[1],
        "svd": lambda: L.svd(x)[1],
        "svdvals": lambda: L.svdvals(x),
        "eigh": lambda: L.eigh(positive)[0],
        "det": lambda: L.det(positive),
        "slogdet": lambda: L.slogdet(positive)[1],
        "lstsq": lambda: L.lstsq(positive, b)[0],
        "pinv": lambda: L.pinv(x),
        "matrix_exp": lambda: L.matrix_exp(x * 0.01),
        "eig": lambda: L.eigvals(x).real,
        "matrix_norm": lambda: L.matrix_norm(x),
        "triangular": lambda: L.solve_triangular(positive, b, upper=False),
        "matrix_power": lambda: L.matrix_power(x, 3),
        "lu": lambda: L.lu(x)[2],
        "cholesky_solve": lambda: torch.cholesky_solve(b, positive),
    }


def layer_cases(device: str) -> Iterator[Case]:
    for dtype in (torch.float32, torch.bfloat16):
        for training in (True, False):

            def setup(dtype: torch.dtype = dtype, training: bool = training) -> Body:
                layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).to(device, dtype)
                stack = nn.TransformerEncoder(layer, 2).train(training)
                x = torch.ones(4, 50, 128, device=device, dtype=dtype)
                mask = torch.zeros(4, 50, dtype=torch.bool, device=device)
                mask[:, 40:] = True

                def body() -> Any:
                    with torch.set_grad_enabled(training):
                        return backward(stack(x, src_key_padding_mask=mask))

                return body

            yield f"transformer encoder {dtype} training={training}", setup

            def attend(dtype: torch.dtype = dtype, training: bool = training) -> Body:
                layer = (
                    nn.MultiheadAttention(128, 4, batch_first=True)
                    .to(device, dtype)
                    .train(training)
                )
                x = torch.ones(4, 50, 128, device=device, dtype=dtype)

                def body() -> Any:
                    with torch.set_grad_enabled(training):
                        return backward(layer(x, x, x, need_weights=training)[0])

                return body

            yield f"multihead attention {dtype} training={training}", attend

    for length, batch, words in ((50, 8, 20), (200, 16, 30), (400, 4, 1000)):

        def ctc(length: int = length, batch: int = batch, words: int = words) -> Body:
            log = torch.randn(length, batch, words, device=device).log_softmax(-1).requires_grad_()
            target = torch.randint(1, words, (batch, 20), device=device)
            sizes = torch.full((batch,), length), torch.full((batch,), 20)
            return lambda: backward(F.ctc_loss(log, target, *sizes))

        yield f"ctc {length} {batch} {words}", ctc

    def vision() -> Body:
        import torchvision

        boxes = torch.rand(2000, 4, device=device) * 100
        boxes[:, 2:] += boxes[:, :2]
        scores = torch.rand(2000, device=device)
        features = torch.rand(2, 256, 50, 50, device=device, requires_grad=True)
        rois = torch.cat([torch.zeros(100, 1, device=device), boxes[:100]], 1)

        def body() -> Any:
            torchvision.ops.nms(boxes, scores, 0.5)
            torchvision.ops.box_iou(boxes[:300], boxes)
            backward(torchvision.ops.roi_align(features, rois, 7, 0.25, 2))
            return torchvision.ops.sigmoid_focal_loss(features, features.detach())

        return body

    yield "torchvision ops", vision


def table_cases(
    device: str,
    family: str,
    table: Callable[[torch.Tensor], dict[str, Body]],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str,
) -> Iterator[Case]:
    def new() -> torch.Tensor:
        x = torch.randn(shape, device=device, dtype=dtype)
        if layout == "last":
            x = x.to(memory_format=torch.channels_last)
        elif layout == "swapped":
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return x.requires_grad_()

    names = sorted(table(new()))
    for name in names:

        def setup(name: str = name) -> Body:
            body = table(new())[name]
            return lambda: backward(body())

        yield f"{family} {name} {dtype} {shape} {layout}", setup


def cases(device: str, seed: int = 0) -> Iterator[Case]:
    chooser = random.Random(seed)
    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    for shape, dtype, layout in (
        (IMAGES[0], f32, "first"),
        (IMAGES[1], bf16, "last"),
        (IMAGES[2], f32, "last"),
    ):
        yield from table_cases(device, "image", image_ops, shape, dtype, layout)
    for shape, dtype in ((ROWS[1], f32), (ROWS[3], bf16), (ROWS[5], f32)):
        yield from table_cases(device, "rows", row_ops, shape, dtype, "first")
    yield scaler_case(device)
    yield from layer_cases(device)
    names = (
        "AdamW",
        "Adam",
        "SGD",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "ASGD",
        "Rprop",
        "Adafactor",
        "Muon",
        "LBFGS",
    )
    for name in names:
        for how in ("default", "loop", "foreach", "fused", "capturable"):
            for dtype in (f32, bf16):
                yield optimizer_case(device, name, how, dtype)
    for shape in ((32, 32), (200, 200), (8, 64, 64), (600, 600)):
        yield from table_cases(device, "linalg", linalg_ops, shape, f32, "first")
    for words in (100, 5000, 50257, 250000):
        for count in (100, 3072, 3073, 8192, 40000):
            for size, kind in (
                (64, "plain"),
                (768, "plain"),
                (768, "strided"),
                (64, "bag"),
                (64, "padding"),
                (64, "frequency"),
                (64, "sparse"),
            ):
                yield embedding_case(
                    device, (words, size, count, chooser.choice((f32, bf16)), kind)
                )
    for dtype in (f32, bf16, f16):
        for shape in ROWS:
            yield from table_cases(
                device, "rows", row_ops, shape, dtype, chooser.choice(("first", "swapped"))
            )
        for shape in IMAGES:
            yield from table_cases(
                device, "image", image_ops, shape, dtype, chooser.choice(("first", "last"))
            )
