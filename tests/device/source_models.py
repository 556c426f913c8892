"""The models that sources.py trains: each with a function for a batch, and one for the loss."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import nn
from torch.utils.checkpoint import checkpoint


def gpt2(is_checkpointed: bool) -> tuple[nn.Module, Callable[[], Any], Callable[..., Any]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False)).cuda()
    if is_checkpointed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def batch() -> dict[str, torch.Tensor]:
        return {"input_ids": torch.randint(0, 50257, (4, 256)).to("cuda")}

    def loss(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return run(**inputs, labels=inputs["input_ids"]).loss

    return model, batch, loss


def resnet50(is_checkpointed: bool) -> tuple[nn.Module, Callable[[], Any], Callable[..., Any]]:
    from torchvision.models import resnet50 as make

    model = make().cuda()
    if is_checkpointed:
        for name in ("layer1", "layer2", "layer3", "layer4"):
            setattr(model, name, Checkpointed(getattr(model, name)))

    def batch() -> dict[str, torch.Tensor]:
        return {
            "x": torch.randn(16, 3, 224, 224).to("cuda"),
            "y": torch.randint(0, 1000, (16,)).to("cuda"),
        }

    def loss(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(run(inputs["x"]), inputs["y"])

    return model, batch, loss


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, is_checkpointed: bool) -> None:
        super().__init__()
        widths = (32, 64, 128, 256)
        self.downs = nn.ModuleList(double_conv(a, b) for a, b in zip((3, *widths[:-1]), widths))
        self.middle = double_conv(256, 512)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in reversed(widths)
        )
        self.joins = nn.ModuleList(double_conv(2 * width, width) for width in reversed(widths))
        self.head = nn.Conv2d(32, 5, 1)
        self.is_checkpointed = is_checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.downs:
            x = checkpoint(down, x, use_reentrant=False) if self.is_checkpointed else down(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join, skip in zip(self.ups, self.joins, reversed(kept)):
            x = join(torch.cat([up(x), skip], dim=1))
        return self.head(x)


def unet(is_checkpointed: bool) -> tuple[nn.Module, Callable[[], Any], Callable[..., Any]]:
    def batch() -> dict[str, torch.Tensor]:
        return {
            "x": torch.randn(4, 3, 192, 192).to("cuda"),
            "y": torch.randint(0, 5, (4, 192, 192)).to("cuda"),
        }

    def loss(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(run(inputs["x"]), inputs["y"])

    return UNet(is_checkpointed).cuda(), batch, loss


class Own(nn.Module):
    """Tied and frozen weights, a buffer, a recurrent part, a submodule called by another name."""

    def __init__(self, is_checkpointed: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(8000, 512)
        self.positions = nn.Parameter(torch.randn(128, 512) * 0.02, requires_grad=False)
        self.register_buffer("scale", torch.ones(512))
        self.rnn = nn.GRU(512, 512, num_layers=2, batch_first=True)
        self.mix = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.SiLU(), nn.Linear(2048, 512))
            for _ in range(6)
        )
        self.head = nn.Linear(512, 8000, bias=False)
        self.head.weight = self.embed.weight
        self.is_checkpointed = is_checkpointed

    def forward(self, ids: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(ids) + self.positions
        x, _ = self.rnn(x)
        for block in self.mix:
            y = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
            x = x + y * self.scale
        return self.head(x if weights is None else x * weights)


def own(is_checkpointed: bool) -> tuple[nn.Module, Callable[[], Any], Callable[..., Any]]:
    def batch() -> dict[str, torch.Tensor]:
        return {
            "ids": torch.randint(0, 8000, (16, 128)).to("cuda"),
            "weights": torch.rand(512).to("cuda"),
        }

    def loss(run: Callable[..., Any], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        logits = run(inputs["ids"], weights=inputs["weights"])
        return F.cross_entropy(logits.flatten(0, 1), inputs["ids"].flatten())

    return Own(is_checkpointed).cuda(), batch, loss


MAKERS = {"gpt2": gpt2, "resnet50": resnet50, "unet": unet, "own": own}
