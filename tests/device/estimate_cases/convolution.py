"""Convolutions of common models: cuDNN's workspaces, forward and backward."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Callable

import torch

Case = tuple[str, Callable[[], Callable[[], Any]]]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
LIMIT_ELEMENTS = 1 << 30
# in, out, kernel, stride, padding, dilation, groups, transposed, output padding, image size
Shape = tuple[
    int,
    int,
    tuple[int, ...],
    tuple[int, ...],
    tuple[int, ...],
    tuple[int, ...],
    int,
    bool,
    tuple[int, ...],
    tuple[int, ...],
]
CLASSIFIERS = (
    "resnet18",
    "resnet50",
    "efficientnet_b0",
    "convnext_tiny",
    "mobilenet_v2",
    "vgg16",
    "densenet121",
    "mobilenet_v3_large",
    "resnext50_32x4d",
    "regnet_y_400mf",
    "googlenet",
    "shufflenet_v2_x1_0",
    "wide_resnet50_2",
    "squeezenet1_0",
    "alexnet",
    "efficientnet_b4",
    "mnasnet1_0",
    "inception_v3",
    "efficientnet_v2_s",
    "regnet_x_800mf",
    "vit_b_16",
    "swin_t",
)


def conv(
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    padding: int,
    image: tuple[int, ...],
    groups: int = 1,
    transposed: bool = False,
    dilation: int = 1,
    output_padding: int = 0,
) -> Shape:
    n = len(image)
    return (
        *channels,
        (kernel,) * n,
        (stride,) * n,
        (padding,) * n,
        (dilation,) * n,
        groups,
        transposed,
        (output_padding,) * n,
        image,
    )


def hand_written() -> Iterator[Shape]:
    for image in (256, 128, 512, 64, 96):
        for index, width in enumerate((64, 128, 256, 512, 1024)):
            side = image >> index
            if side < 4:
                break
            yield conv((width // 2 if index else 3, width), 3, 1, 1, (side, side))
            yield conv((width, width), 3, 1, 1, (side, side))
            yield conv((width + width // 2, width // 2), 3, 1, 1, (side * 2, side * 2))
            yield conv((width * 2, width), 3, 1, 1, (side, side))
            yield conv((width, width // 2), 2, 2, 0, (side, side), transposed=True)
        yield conv((64, 3), 1, 1, 0, (image, image))
        yield conv((64, 1), 1, 1, 0, (image, image))
    for width, side in ((320, 64), (640, 32), (1280, 16), (1280, 8), (128, 32), (256, 16)):
        yield conv((width, width), 3, 1, 1, (side, side))
        yield conv((width * 2, width), 3, 1, 1, (side, side))
        yield conv((width, width), 1, 1, 0, (side, side))
        yield conv((width, width), 3, 2, 1, (side, side))
    for width, side in ((128, 256), (256, 128), (512, 64), (512, 32), (128, 512)):
        yield conv((width, width), 3, 1, 1, (side, side))
        yield conv((width, width), 3, 2, 0, (side + 1, side + 1))
        yield conv((width, 3), 3, 1, 1, (side, side))
    yield conv((4, 320), 3, 1, 1, (64, 64))
    yield conv((320, 4), 3, 1, 1, (64, 64))
    for last in (64, 128):
        for index, (a, b) in enumerate(((100, 512), (512, 256), (256, 128), (128, 64), (64, 3))):
            pads = (1, 0) if index == 0 else (2, 1)
            side = 1 if index == 0 else 2 << index
            yield conv(
                (a, b if last == 64 else b * 2), 4, pads[0], pads[1], (side, side), transposed=True
            )
    for index, (a, b) in enumerate(((3, 64), (64, 128), (128, 256), (256, 512))):
        yield conv((a, b), 4, 2, 1, (64 >> index, 64 >> index))
    yield conv((512, 1), 4, 1, 0, (4, 4))
    for side, pairs in (
        (28, ((1, 32), (1, 6), (1, 16), (1, 64))),
        (32, ((3, 32), (3, 6), (3, 16), (3, 64))),
    ):
        for pair in pairs:
            yield conv(pair, 3, 1, 1, (side, side))
            yield conv(pair, 5, 1, 0, (side, side))
            yield conv(pair, 3, 1, 0, (side, side))
    for side, a, b in (
        (26, 32, 64),
        (14, 32, 64),
        (12, 6, 16),
        (14, 6, 16),
        (16, 64, 128),
        (8, 128, 256),
    ):
        for kernel, padding in ((3, 0), (3, 1), (5, 0), (5, 2)):
            yield conv((a, b), kernel, 1, padding, (side, side))
    for side, width in ((32, 16), (16, 32), (8, 64), (32, 64), (16, 128), (8, 256), (4, 512)):
        yield conv((width, width), 3, 1, 1, (side, side))
        yield conv((width // 2, width), 3, 2, 1, (side * 2, side * 2))
        yield conv((width // 2, width), 1, 2, 0, (side * 2, side * 2))
    for patch, width, side in (
        (16, 768, 224),
        (16, 384, 224),
        (14, 1024, 224),
        (4, 192, 32),
        (32, 768, 224),
        (16, 1024, 384),
    ):
        yield conv((3, width), patch, patch, 0, (side, side))
    yield from audio()
    yield from video()
    yield from detection()


def audio() -> Iterator[Shape]:
    length = 16000
    for a, b, kernel, stride in (
        (1, 512, 10, 5),
        (512, 512, 3, 2),
        (512, 512, 3, 2),
        (512, 512, 2, 2),
    ):
        yield conv((a, b), kernel, stride, 0, (length,))
        length = (length - kernel) // stride + 1
    yield conv((768, 768), 128, 1, 64, (49,), groups=16)
    for width in (384, 512, 768):
        yield conv((80, width), 3, 1, 1, (3000,))
        yield conv((width, width), 3, 2, 1, (3000,))
    for width, length in ((64, 1024), (128, 512), (256, 256), (32, 8000), (80, 100), (256, 128)):
        for kernel in (1, 3, 5, 7, 9):
            yield conv((width, width), kernel, 1, kernel // 2, (length,))
        yield conv((width, width), 3, 1, 4, (length,), dilation=4)
        yield conv((width, width), 31, 1, 15, (length,), groups=width)
        yield conv((width, width // 2), 16, 8, 4, (length // 8,), transposed=True)


def video() -> Iterator[Shape]:
    for a, b, image in (
        (3, 64, (16, 112, 112)),
        (64, 64, (16, 56, 56)),
        (64, 128, (8, 28, 28)),
        (1, 32, (64, 64, 64)),
        (32, 64, (32, 32, 32)),
        (64, 128, (16, 16, 16)),
        (16, 16, (96, 96, 96)),
        (128, 256, (8, 8, 8)),
    ):
        yield conv((a, b), 3, 1, 1, image)
        yield conv((b, b), 3, 2, 1, image)
        yield conv((b, a), 1, 1, 0, image)
        yield conv((b, b // 2), 2, 2, 0, tuple(side // 2 for side in image), transposed=True)


def detection() -> Iterator[Shape]:
    for side in (
        (200, 336),
        (100, 168),
        (50, 84),
        (25, 42),
        (13, 21),
        (80, 80),
        (40, 40),
        (20, 20),
    ):
        yield conv((256, 256), 3, 1, 1, side)
        yield conv((256, 12), 1, 1, 0, side)
        yield conv((256, 9 * 91), 3, 1, 1, side)
    for a, side in ((256, (200, 336)), (512, (100, 168)), (1024, (50, 84)), (2048, (25, 42))):
        yield conv((a, 256), 1, 1, 0, side)
        yield conv((a // 4, a // 4), 3, 1, 1, side)
    for a, b, side in ((3, 32, 640), (32, 64, 320), (64, 128, 160), (128, 256, 80), (256, 512, 40)):
        yield conv((a, b), 3, 2, 1, (side, side))
        yield conv((b, b), 3, 1, 1, (side // 2, side // 2))
        yield conv((b, b // 2), 1, 1, 0, (side // 2, side // 2))


def of_classifiers() -> list[Shape]:
    """The convolutions of torchvision's classifiers, found by running them without data."""
    try:
        import torchvision
    except ImportError:
        return []
    found: dict[Shape, None] = {}

    def remember(module: Any, inputs: Any) -> None:
        shape = (
            module.in_channels,
            module.out_channels,
            module.kernel_size,
            module.stride,
            module.padding,
            module.dilation,
            module.groups,
            False,
            (0,) * (inputs[0].dim() - 2),
            tuple(inputs[0].shape[2:]),
        )
        found.setdefault(shape)

    for name in CLASSIFIERS:
        try:
            with torch.device("meta"):
                net = torchvision.models.get_model(name, weights=None).eval()
                for module in net.modules():
                    if isinstance(module, torch.nn.Conv2d):
                        module.register_forward_pre_hook(remember)
                side = 299 if name == "inception_v3" else 224
                net(torch.empty(2, 3, side, side))
        except Exception as error:  # noqa: PERF203
            print("no convolutions of", name, error, flush=True)
    return list(found)


def case(device: str, shape: Shape, batch: int, dtype: str, layout: str, mode: str) -> Case:
    a, b, kernel, stride, padding, dilation, groups, transposed, output_padding, image = shape
    name = f"conv {mode} {dtype} {layout} {batch} {shape}"

    def setup() -> Callable[[], Any]:
        # benchmark and deterministic change the choice of the algorithm, tf32 its kernels
        torch.backends.cudnn.benchmark = mode == "benchmark"
        torch.backends.cudnn.deterministic = mode == "deterministic"
        torch.backends.cudnn.allow_tf32 = mode != "ieee"
        last = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}
        weights = (a, b // groups) if transposed else (b, a // groups)
        x = torch.zeros(batch, a, *image, dtype=DTYPES[dtype], device=device)
        w = torch.zeros(*weights, *kernel, dtype=DTYPES[dtype], device=device)
        bias = torch.zeros(b, dtype=DTYPES[dtype], device=device)
        if layout in ("last", "mixed"):
            x = x.to(memory_format=last[x.dim()])
        if layout == "last":
            w = w.to(memory_format=last[x.dim()])
        rest = (
            list(stride),
            list(padding),
            list(dilation),
            transposed,
            list(output_padding),
            groups,
        )
        aten = torch.ops.aten

        def body() -> Any:
            for _ in range(2 if mode == "benchmark" else 1):
                y = aten.convolution(x, w, bias, *rest)
                aten.convolution_backward(y, x, w, [b], *rest, [True, True, True])
            return y

        return body

    return name, setup


def cases(device: str, shapes: list[Shape], seed: int = 0) -> Iterator[Case]:
    """Every shape in the most common setting first, then other batches, types and layouts."""
    chooser = random.Random(seed)
    rounds = [
        (batch, dtype, layout, "plain")
        for batch, dtype, layout in (
            (32, "f32", "first"),
            (32, "bf16", "first"),
            (4, "f32", "first"),
            (4, "bf16", "first"),
            (64, "f32", "first"),
            (8, "f32", "first"),
            (8, "bf16", "first"),
            (64, "bf16", "last"),
            (16, "f32", "first"),
            (128, "bf16", "first"),
            (32, "f32", "last"),
            (16, "bf16", "first"),
            (2, "f32", "first"),
            (1, "f32", "first"),
            (128, "f32", "first"),
        )
    ]
    odd = [
        (8, "f32", "first", "benchmark"),
        (8, "f32", "first", "deterministic"),
        (8, "f32", "first", "ieee"),
        (8, "f16", "first", "plain"),
        (32, "f16", "last", "plain"),
        (8, "f64", "first", "plain"),
        (8, "bf16", "mixed", "plain"),
        (2, "bf16", "first", "benchmark"),
        (8, "f32", "mixed", "plain"),
    ]
    for number, setting in enumerate(rounds):
        order = list(shapes)
        chooser.shuffle(order)
        for shape in order:
            batch = setting[0]
            if batch * max(shape[0], shape[1]) * _product(shape[9]) * 4 < LIMIT_ELEMENTS:
                yield case(device, shape, *setting)
        for shape in order[: len(order) // 12]:
            setting = odd[chooser.randrange(len(odd))]
            if setting[0] * max(shape[0], shape[1]) * _product(shape[9]) * 4 < LIMIT_ELEMENTS // 4:
                yield case(device, shape, *setting)
        print("convolution round", number, "done", flush=True)


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
