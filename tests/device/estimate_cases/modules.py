"""Norms, losses, pooling, resizing, indexing, embeddings, optimizers, fft, linear algebra."""

from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[str, Callable[[], Callable[[], Any]]]
Body = Callable[[], Any]
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


def backward(out: torch.Tensor) -> Any:
    if out.requires_grad:
        out.backward(torch.ones_like(out))
    return out


def grads(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(t.detach().requires_grad_() for t in tensors)


def image_ops(x: torch.Tensor) -> dict[str, Body]:
    n, c, h, w = x.shape
    weight, bias = grads(torch.ones(c, device=x.device), torch.zeros(c, device=x.device))
    halves = (
        weight.detach().to(x.dtype).requires_grad_(),
        bias.detach().to(x.dtype).requires_grad_(),
    )
    mean, var = torch.zeros(c, device=x.device), torch.ones(c, device=x.device)
    grid = torch.rand(n, h, w, 2, device=x.device, dtype=x.dtype, requires_grad=True)
    groups = 8 if c % 8 == 0 else 1
    ops: dict[str, Body] = {
        "batch_norm": lambda: F.batch_norm(x, mean, var, weight, bias, True),
        "batch_norm_half": lambda: F.batch_norm(x, mean, var, *halves, True),
        "batch_norm_eval": lambda: F.batch_norm(x, mean, var, weight, bias, False),
        "batch_norm_bare": lambda: F.batch_norm(x, None, None, None, None, True),
        "group_norm": lambda: F.group_norm(x, groups, *halves),
        "group_norm_1": lambda: F.group_norm(x, 1, *halves),
        "group_norm_bare": lambda: F.group_norm(x, groups),
        "instance_norm": lambda: F.instance_norm(x, weight=halves[0], bias=halves[1]),
        "layer_norm_image": lambda: F.layer_norm(x, (c, h, w)),
        "layer_norm_last": lambda: F.layer_norm(x.permute(0, 2, 3, 1), (c,), *halves),
        "max_pool": lambda: F.max_pool2d(x, 2),
        "max_pool3": lambda: F.max_pool2d(x, 3, 2, 1),
        "avg_pool": lambda: F.avg_pool2d(x, 2),
        "adaptive_avg_1": lambda: F.adaptive_avg_pool2d(x, 1),
        "adaptive_avg_7": lambda: F.adaptive_avg_pool2d(x, 7),
        "adaptive_avg_6": lambda: F.adaptive_avg_pool2d(x, (6, 5)),
        "adaptive_max": lambda: F.adaptive_max_pool2d(x, 3),
        "lp_pool": lambda: F.lp_pool2d(x, 2.0, 2),
        "nearest": lambda: F.interpolate(x, scale_factor=2),
        "bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "bilinear_size": lambda: F.interpolate(
            x, size=(50, 40), mode="bilinear", align_corners=True
        ),
        "bicubic": lambda: F.interpolate(x, scale_factor=2, mode="bicubic"),
        "area": lambda: F.interpolate(x, scale_factor=0.5, mode="area"),
        "antialias": lambda: F.interpolate(x, size=(20, 20), mode="bilinear", antialias=True),
        "grid_sample": lambda: F.grid_sample(x, grid, align_corners=False),
        "affine_grid": lambda: F.affine_grid(grid[:, :2, :3, 0], [n, c, h, w], align_corners=False),
        "pad": lambda: F.pad(x, (1, 2, 3, 1)),
        "pad_reflect": lambda: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad_replicate": lambda: F.pad(x, (1, 1, 1, 1), mode="replicate"),
        "pad_circular": lambda: F.pad(x, (1, 1, 1, 1), mode="circular"),
        "unfold": lambda: F.unfold(x, 3, padding=1),
        "fold": lambda: F.fold(F.unfold(x, 2, stride=2), (h, w), 2, stride=2),
        "dropout2d": lambda: F.dropout2d(x, 0.2),
        "alpha_dropout": lambda: F.alpha_dropout(x, 0.2, True),
        "pixel_shuffle": lambda: F.pixel_unshuffle(F.pad(x, (0, w % 2, 0, h % 2)), 2),
        "channel_shuffle": lambda: F.channel_shuffle(x, groups),
        "prelu": lambda: F.prelu(x, halves[0]),
        "rrelu": lambda: F.rrelu(x, training=True),
        "cat": lambda: torch.cat([x, x, x[:, :1]], 1),
        "flip": lambda: x.flip(-1),
        "roll": lambda: x.roll((1, 2), (2, 3)),
        "fft2": lambda: torch.fft.rfft2(x.float()).abs(),
        "fft": lambda: torch.fft.fft(x.float()).real,
        "ifft": lambda: torch.fft.irfft(torch.fft.rfft(x.float())),
        "local_response": lambda: F.local_response_norm(x, 3),
        "cosine": lambda: F.cosine_similarity(x, x.flip(0), dim=1),
        "normalize": lambda: F.normalize(x, dim=1),
    }
    return ops


def row_ops(x: torch.Tensor) -> dict[str, Body]:
    size, device, dtype = x.size(-1), x.device, x.dtype
    weight, bias = grads(
        torch.ones(size, device=device, dtype=dtype), torch.zeros(size, device=device, dtype=dtype)
    )
    flat = x.flatten(0, -2)
    labels = torch.randint(0, size, (flat.size(0),), device=device)
    soft = torch.rand_like(flat.detach())
    target = torch.rand_like(x.detach())
    mask = target > 0.5
    classes = torch.rand(size, device=device, dtype=dtype)
    log = flat.detach().log_softmax(-1).requires_grad_()
    noise = {"sum": "sum", "none": "none"}
    return {
        "layer_norm": lambda: F.layer_norm(x, (size,), weight, bias),
        "layer_norm_bare": lambda: F.layer_norm(x, (size,)),
        "rms_norm": lambda: F.rms_norm(x, (size,), weight),
        "rms_norm_bare": lambda: F.rms_norm(x, (size,)),
        "hand_rms_norm": lambda: weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype),
        "cross_entropy": lambda: F.cross_entropy(flat, labels),
        "cross_entropy_sum": lambda: F.cross_entropy(flat, labels, reduction=noise["sum"]),
        "cross_entropy_none": lambda: F.cross_entropy(flat, labels, reduction=noise["none"]),
        "cross_entropy_weight": lambda: F.cross_entropy(flat, labels, classes),
        "cross_entropy_smooth": lambda: F.cross_entropy(flat, labels, label_smoothing=0.1),
        "cross_entropy_soft": lambda: F.cross_entropy(flat, soft),
        "cross_entropy_f32": lambda: F.cross_entropy(flat.float(), labels),
        "cross_entropy_2d": lambda: F.cross_entropy(flat[None].transpose(1, 2), labels[None]),
        "nll": lambda: F.nll_loss(log, labels),
        "bce_logits": lambda: F.binary_cross_entropy_with_logits(x, target),
        "bce_logits_weight": lambda: F.binary_cross_entropy_with_logits(x, target, pos_weight=classes),
        "bce": lambda: F.binary_cross_entropy(x.sigmoid().float(), target.float()),
        "kl": lambda: F.kl_div(log, soft, reduction="batchmean"),
        "kl_log": lambda: F.kl_div(log, soft, log_target=True),
        "mse": lambda: F.mse_loss(x, target),
        "mse_sum": lambda: F.mse_loss(x, target, reduction="sum"),
        "mse_none": lambda: F.mse_loss(x, target, reduction="none"),
        "l1": lambda: F.l1_loss(x, target),
        "smooth_l1": lambda: F.smooth_l1_loss(x, target),
        "huber": lambda: F.huber_loss(x, target),
        "soft_margin": lambda: F.soft_margin_loss(x, target),
        "triplet": lambda: F.triplet_margin_loss(flat, soft, soft.flip(0)),
        "cosine_embedding": lambda: F.cosine_embedding_loss(flat, soft, torch.ones(flat.size(0), device=device)),
        "gaussian": lambda: F.gaussian_nll_loss(x, target, target),
        "margin_ranking": lambda: F.margin_ranking_loss(flat, soft, soft),
        "multi_margin": lambda: F.multi_margin_loss(flat.float(), labels),
        "dropout": lambda: F.dropout(x, 0.1),
        "gelu": lambda: F.gelu(x),
        "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "silu": lambda: F.silu(x),
        "relu_": lambda: F.relu(x * 1, inplace=True),
        "mish": lambda: F.mish(x),
        "softplus": lambda: F.softplus(x),
        "glu": lambda: F.glu(x[..., : size // 2 * 2]),
        "logsigmoid": lambda: F.logsigmoid(x),
        "gumbel": lambda: F.gumbel_softmax(x),
        "masked_fill": lambda: x.masked_fill(mask, -1.0),
        "where": lambda: torch.where(mask, x, target),
        "where_scalar": lambda: torch.where(mask, x, 0.0),
        "clamp": lambda: x.clamp(0, 1),
        "gather": lambda: flat.gather(1, labels[:, None]),
        "scatter_add": lambda: torch.zeros_like(flat).scatter_add(1, labels[:, None].expand(-1, 3), flat[:, :3]),
        "index_select": lambda: flat.index_select(0, labels % flat.size(0)),
        "index_row": lambda: flat[labels % flat.size(0)],
        "index_two": lambda: flat[torch.arange(flat.size(0), device=device), labels],
        "index_slice": lambda: flat[:, labels[:7]],
        "index_add": lambda: torch.zeros_like(flat).index_add(0, labels % flat.size(0), flat),
        "index_put": lambda: torch.zeros_like(flat).index_put((labels % flat.size(0),), flat),
        "index_put_add": lambda: torch.zeros_like(flat).index_put((labels % flat.size(0),), flat, accumulate=True),
        "index_copy": lambda: torch.zeros_like(flat).index_copy(0, labels % flat.size(0), flat),
        "scatter_reduce": lambda: torch.zeros_like(flat).scatter_reduce(1, labels[:, None], flat[:, :1], "amax"),
        "take_along": lambda: torch.take_along_dim(flat, labels[:, None], 1),
        "one_hot": lambda: F.one_hot(labels, size),
        "multinomial": lambda: torch.multinomial(soft.float() + 1e-3, 1),
        "multinomial_many": lambda: torch.multinomial(soft.float() + 1e-3, min(3, size)),
        "bincount": lambda: torch.bincount(labels),
        "histc": lambda: torch.histc(x.detach().float(), 100),
        "searchsorted": lambda: torch.searchsorted(classes.float().sort()[0], x.detach().float()),
        "bucketize": lambda: torch.bucketize(x.detach().float(), classes.float().sort()[0]),
        "repeat_interleave": lambda: flat.repeat_interleave(2, 0),
        "repeat_tensor": lambda: flat[:64].repeat_interleave(labels[:64] % 4, 0),
        "tril": lambda: flat.tril(),
        "triu_mask": lambda: torch.triu(torch.ones(300, 300, device=device, dtype=torch.bool), 1),
        "cdist": lambda: torch.cdist(flat[:300].float(), soft[:200].float()),
        "cdist1": lambda: torch.cdist(flat[:100].float(), soft[:50].float(), p=1.0),
        "pdist": lambda: F.pdist(flat[:100].float()),
        "stack": lambda: torch.stack([x, x]),
        "addcmul": lambda: torch.addcmul(x, x, target),
        "lerp": lambda: torch.lerp(x, target, 0.5),
        "half_to_float": lambda: x.to(torch.float64),
        "randn_like": lambda: torch.randn_like(x),
        "randperm": lambda: torch.randperm(flat.size(0), device=device),
        "bernoulli": lambda: torch.bernoulli(soft),
        "exponential": lambda: torch.empty_like(soft).exponential_(),
        "isnan": lambda: x.isnan().any(),
        "isfinite": lambda: x.isfinite().all(),
        "allclose": lambda: torch.allclose(soft, soft),
        "nan_to_num": lambda: x.nan_to_num(),
        "cumsum_mask": lambda: mask.flatten(0, -2).cumsum(-1),
        "einsum": lambda: torch.einsum("ij,kj->ik", flat[:256], soft[:128]),
        "outer_mul": lambda: flat[:100, :, None] * soft[:100, None, :100],
        "cov": lambda: torch.corrcoef(flat[:50].float()),
        "norm_clip": lambda: nn.utils.clip_grad_norm_([weight], 1.0) if weight.grad is not None else x,
    }  # fmt: skip


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
        "cholesky": lambda: L.cholesky(positive), "inv": lambda: L.inv(positive),
        "solve": lambda: L.solve(positive, b), "qr": lambda: L.qr(x)[1], "svd": lambda: L.svd(x)[1],
        "svdvals": lambda: L.svdvals(x), "eigh": lambda: L.eigh(positive)[0], "det": lambda: L.det(positive),
        "slogdet": lambda: L.slogdet(positive)[1], "lstsq": lambda: L.lstsq(positive, b)[0],
        "pinv": lambda: L.pinv(x), "matrix_exp": lambda: L.matrix_exp(x * 0.01), "eig": lambda: L.eigvals(x).real,
        "matrix_norm": lambda: L.matrix_norm(x), "triangular": lambda: L.solve_triangular(positive, b, upper=False),
        "matrix_power": lambda: L.matrix_power(x, 3), "lu": lambda: L.lu(x)[2], "cholesky_solve": lambda: torch.cholesky_solve(b, positive),
    }  # fmt: skip


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
    device: str, family: str, table: Callable[[torch.Tensor], dict[str, Body]], shape: tuple[int, ...], dtype: torch.dtype, layout: str
) -> Iterator[Case]:  # fmt: skip
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
    names = ("AdamW", "Adam", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD",
             "Rprop", "Adafactor", "Muon", "LBFGS")  # fmt: skip
    for name in names:
        for how in ("default", "loop", "foreach", "fused", "capturable"):
            for dtype in (f32, bf16):
                yield optimizer_case(device, name, how, dtype)
    for shape in ((32, 32), (200, 200), (8, 64, 64), (600, 600)):
        yield from table_cases(device, "linalg", linalg_ops, shape, f32, "first")
    for words in (100, 5000, 50257, 250000):
        for count in (100, 3072, 3073, 8192, 40000):
            for size, kind in ((64, "plain"), (768, "plain"), (768, "strided"), (64, "bag"), (64, "padding"),
                               (64, "frequency"), (64, "sparse")):  # fmt: skip
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
