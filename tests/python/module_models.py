"""Small models of the kinds people train.

Their structure matches the real ones, with tiny widths: ResNet-50, GPT-2 with tied weights,
a detection network, a U-Net, a mixture of experts, and one that calls modules repeatedly.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from module_referee import Referee, outside
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + identity)


class ResNet50(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = width
        for number, (blocks, stride) in enumerate([(3, 1), (4, 2), (6, 2), (3, 2)], 1):
            layers = []
            for block in range(blocks):
                layers.append(
                    Bottleneck(inputs, width * 2 ** (number - 1), stride if block == 0 else 1)
                )
                inputs = 4 * width * 2 ** (number - 1)
            setattr(self, f"layer{number}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, 10)

    def features(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        maps = []
        for number in range(1, 5):
            x = getattr(self, f"layer{number}")(x)
            maps.append(x)
        return maps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.avgpool(self.features(x)[-1]), 1))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, 2, width // 2).transpose(1, 2)
            for part in self.c_attn(x).chunk(3, -1)
        )
        weights = (q @ k.transpose(-2, -1)) / (width // 2) ** 0.5
        weights = self.dropout(weights.softmax(-1))
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(self.act(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, saving: str) -> None:
        super().__init__()
        self.wte = nn.Embedding(64, width)
        self.wpe = nn.Embedding(32, width)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.saving = saving

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.h:
            if self.saving == "no":
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.saving == "reentrant")
        return self.ln_f(x)


class Gpt2(nn.Module):
    def __init__(self, width: int = 16, layers: int = 4, saving: str = "no") -> None:
        super().__init__()
        self.transformer = Transformer(width, layers, saving)
        self.lm_head = nn.Linear(width, 64, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.lm_head(self.transformer(ids))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Body(ResNet50):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        del self.fc, self.avgpool

    def forward(self, x: torch.Tensor) -> Any:
        return self.features(x)


class Pyramid(nn.Module):
    def __init__(self, widths: list[int], out: int) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList(nn.Conv2d(width, out, 1) for width in widths)
        self.layer_blocks = nn.ModuleList(nn.Conv2d(out, out, 3, padding=1) for _ in widths)

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        last = self.inner_blocks[-1](maps[-1])
        results = [self.layer_blocks[-1](last)]
        for index in range(len(maps) - 2, -1, -1):
            above = functional.interpolate(last, size=maps[index].shape[-2:], mode="nearest")
            last = self.inner_blocks[index](maps[index]) + above
            results.insert(0, self.layer_blocks[index](last))
        return results


class Head(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(*(nn.Conv2d(width, width, 3, padding=1) for _ in range(2)))
        self.out = nn.Conv2d(width, out, 3, padding=1)

    def forward(self, maps: list[torch.Tensor]) -> list[torch.Tensor]:
        return [self.out(functional.relu(self.conv(each))) for each in maps]


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Body(2)
        self.fpn = Pyramid([8, 16, 32, 64], 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fpn(self.body(x))


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.classification_head = Head(8, 5)
        self.regression_head = Head(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.backbone(x)
        classes, boxes = self.classification_head(maps), self.regression_head(maps)
        return sum(each.sigmoid().mean() for each in classes) + sum(
            each.abs().mean() for each in boxes
        )


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, width, 3, padding=1),
            nn.GroupNorm(1, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.SiLU(),
        )


class UNet(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(
            DoubleConv(inputs, each) for inputs, each in zip([3, *widths], widths)
        )
        self.pool = nn.MaxPool2d(2)
        self.middle = DoubleConv(widths[-1], widths[-1])
        self.up = nn.ModuleDict(
            {
                f"level{index}": nn.ModuleList(
                    [
                        nn.ConvTranspose2d(each, each, 2, 2),
                        DoubleConv(2 * each, widths[max(0, index - 1)]),
                    ]
                )
                for index, each in enumerate(widths)
            }
        )
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
            x = self.pool(x)
        x = self.middle(x)
        for index in reversed(range(len(skips))):
            widen, convolve = self.up[f"level{index}"]
            x = convolve(torch.cat([widen(x), skips[index]], 1))
        return self.out(x)


class Experts(nn.Module):
    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(Mlp(width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, 1)
        weights, chosen = self.gate(flat).softmax(-1).topk(2, -1)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            if len(rows):
                result = result.index_add(0, rows, expert(flat[rows]) * weights[rows, place, None])
        return result.view_as(x)


class MixtureBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.moe = Experts(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.moe(self.norm(x))


class Mixture(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.layers = nn.ModuleList(MixtureBlock(width) for _ in range(3))
        self.head = nn.Linear(width, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Again(nn.Module):
    """One layer in a loop, one module twice, one under two names, several sharing code at once."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.cell = nn.Linear(width, width)
        self.block = Mlp(width)
        self.alias = self.block
        self.row = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(self.cell(x))
        x = self.alias(self.norm(self.block(x)))
        # These calls differ only in their modules.
        for each in self.row:
            x = each(x)
        return sum(each(x) for each in self.row)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def images(model: nn.Module) -> torch.Tensor:
    return model(torch.randn(2, 3, 32, 32, device=device_of(model))).square().mean()


def tokens(model: nn.Module) -> torch.Tensor:
    return model(torch.randint(0, 64, (2, 12), device=device_of(model)))


def rows(model: nn.Module) -> torch.Tensor:
    return model(torch.randn(8, 16, device=device_of(model))).sum()


def train(
    model: nn.Module, run: Callable[[nn.Module], torch.Tensor], referee: Referee, steps: int
) -> None:
    """Some training steps, with every allocation tagged with its module."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with outside(), referee.backward():
        for _ in range(steps):
            optimizer.zero_grad()
            run(model).backward()
            optimizer.step()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], torch.Tensor]]] = {
    "resnet50": (ResNet50, images),
    "gpt2": (Gpt2, tokens),
    "gpt2_checkpointed": (lambda: Gpt2(saving="not reentrant"), tokens),
    "gpt2_checkpointed_reentrant": (lambda: Gpt2(saving="reentrant"), tokens),
    "detector": (Detector, images),
    "unet": (UNet, images),
    "mixture": (Mixture, tokens),
    "again": (Again, rows),
}
