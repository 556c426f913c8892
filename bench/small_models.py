"""Small models, built in as many ways as people build them, to test the advice on.

The line that runs a block calls the block itself, as its author would write it, or `recompute` if
that is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY = 1000
Recompute = Callable[..., Tensor]


def plainly(block: nn.Module, *inputs: Tensor) -> Tensor:
    """Recompute a whole block."""
    result: Tensor = checkpoint(block, *inputs, use_reentrant=False)
    return result


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, self.groups * self.head, bias=False)
        self.v = nn.Linear(width, self.groups * self.head, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        n, t, _ = x.shape
        q = self.q(x).view(n, t, self.heads, self.head).transpose(1, 2)
        k = self.k(x).view(n, t, self.groups, self.head).transpose(1, 2)
        v = self.v(x).view(n, t, self.groups, self.head).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(n, t, -1))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x), cos, sin)
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, width: int = 128, layers: int = 6) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(LlamaBlock(width, 8, 2) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        t = tokens.shape[1]
        angles = torch.outer(torch.arange(t), 1e4 ** (-torch.arange(0, 16, 2) / 16))
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        x = self.embed(tokens)
        for layer in self.layers:
            x = self.recompute(layer, x, cos, sin) if self.recompute else layer(x, cos, sin)
        return self.head(self.norm(x))


class ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = self.drop(((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1))
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, width: int = 128, layers: int = 6, patches: int = 64) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, patches + 1, width))
        self.blocks = nn.ModuleList(ViTBlock(width, 4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.position
        for block in self.blocks:
            x = self.recompute(block, x) if self.recompute else block(x)
        return self.head(self.norm(x)[:, 0])


class Recurrent(nn.Module):
    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.embed = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


class EncoderDecoder(nn.Module):
    def __init__(self, width: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.embed = nn.Embedding(VOCABULARY, width)
        shape: dict[str, Any] = {"nhead": 4, "dim_feedforward": 4 * width, "batch_first": True}
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(width, **shape) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(width, **shape) for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        memory = self.embed(tokens)
        for layer in self.encoder:
            memory = self.recompute(layer, memory) if self.recompute else layer(memory)
        x = self.embed(tokens)
        for layer in self.decoder:
            x = self.recompute(layer, x, memory) if self.recompute else layer(x, memory)
        return self.head(x)


class MixerBlock(nn.Module):
    def __init__(self, width: int, patches: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(
            nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, width: int = 128, layers: int = 6, patches: int = 64) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.Sequential(*(MixerBlock(width, patches) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        if self.recompute:
            for block in self.blocks:
                x = self.recompute(block, x)
        else:
            x = self.blocks(x)
        return self.head(self.norm(x).mean(dim=1))


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat((x, self.conv2(functional.relu(self.norm2(y)))), dim=1)


class DenseNet(nn.Module):
    def __init__(self, growth: int = 16, layers: int = 6) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.first = nn.ModuleList(DenseLayer(32 + growth * i, growth) for i in range(layers))
        width = (32 + growth * layers) // 2
        self.narrow = nn.Sequential(
            nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Conv2d(2 * width, width, 1), nn.AvgPool2d(2)
        )
        self.second = nn.ModuleList(DenseLayer(width + growth * i, growth) for i in range(layers))
        self.head = nn.Linear(width + growth * layers, 100)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for layer in self.first:
            x = self.recompute(layer, x) if self.recompute else layer(x)
        x = self.narrow(x)
        for layer in self.second:
            x = self.recompute(layer, x) if self.recompute else layer(x)
        return self.head(functional.relu(x).mean(dim=(2, 3)))


class Residual(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.c2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.b1, self.b2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.short = nn.Conv2d(inputs, width, 1, stride) if stride > 1 else nn.Identity()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(
            self.short(x) + self.b2(self.c2(functional.relu(self.b1(self.c1(x)))))
        )


class ResidualOnOneLine(Residual):
    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.short(x) + self.b2(self.c2(self.act(self.b1(self.c1(x))))))


class ResNet(nn.Module):
    def __init__(self, width: int = 32, block: type[Residual] = Residual) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        plan = [(1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1)]
        self.blocks = nn.Sequential(*(block(a * width, b * width, s) for a, b, s in plan))
        self.head = nn.Linear(4 * width, 100)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.stem(images))
        if self.recompute:
            for block in self.blocks:
                x = self.recompute(block, x)
        else:
            x = self.blocks(x)
        return self.head(x.mean(dim=(2, 3)))


class Experts(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
            for _ in range(experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = functional.softmax(self.router(flat), dim=-1).topk(2, dim=-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            part = expert(flat[rows]) * weights[rows, place, None]
            out = out.index_add(0, rows, part.to(out.dtype))
        return out.view_as(x)


class ExpertBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.experts = Experts(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.experts(self.norm2(x))


class MixtureOfExperts(nn.Module):
    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(ExpertBlock(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = self.recompute(layer, x) if self.recompute else layer(x)
        return self.head(x)


class PostNormBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out, self.wide = nn.Linear(width, width), nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        weights = self.dropout(functional.softmax(scores, dim=-1))
        context = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.dropout(self.out(context)))
        hidden = functional.gelu(self.wide(x))
        return self.norm2(x + self.dropout(self.narrow(hidden)))


class Bert(nn.Module):
    def __init__(self, width: int = 96, layers: int = 5) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.words = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(PostNormBlock(width, 6) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.positions(positions))
        for layer in self.layers:
            x = self.recompute(layer, x) if self.recompute else layer(x)
        return functional.linear(x, self.words.weight)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(functional.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.recompute: Recompute | None = None
        self.stem = nn.Conv2d(3, width, 2, 2)
        self.first = nn.ModuleList(ConvNextBlock(width) for _ in range(3))
        self.down = nn.Conv2d(width, 2 * width, 2, 2)
        self.second = nn.ModuleList(ConvNextBlock(2 * width) for _ in range(3))
        self.head = nn.Linear(2 * width, 100)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for block in self.first:
            x = self.recompute(block, x) if self.recompute else block(x)
        x = self.down(x)
        for block in self.second:
            x = self.recompute(block, x) if self.recompute else block(x)
        return self.head(x.mean(dim=(2, 3)))


class Kind(NamedTuple):
    """How to build a model, and its inputs."""

    build: Callable[[], nn.Module]
    reads_tokens: bool
    has_blocks: bool = True


MODELS: dict[str, Kind] = {
    "llama": Kind(Llama, True),
    "vit": Kind(ViT, False),
    "lstm": Kind(Recurrent, True, has_blocks=False),
    "encoder_decoder": Kind(EncoderDecoder, True),
    "mixer": Kind(Mixer, False),
    "densenet": Kind(DenseNet, False),
    "resnet": Kind(ResNet, False),
    "resnet_on_one_line": Kind(lambda: ResNet(block=ResidualOnOneLine), False),
    "experts": Kind(MixtureOfExperts, True),
    "bert": Kind(Bert, True),
    "convnext": Kind(ConvNext, False),
}
