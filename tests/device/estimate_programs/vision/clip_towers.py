"""Contrastive training of two towers, a ViT and a text transformer, as in CLIP."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class VisionTower(nn.Module):
    def __init__(self, size, patch, width, layers, out):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        self.token = nn.Parameter(torch.randn(width) * width**-0.5)
        self.position = nn.Parameter(torch.randn((size // patch) ** 2 + 1, width) * 0.01)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, out, bias=False)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), 1, -1).to(x.dtype), x], dim=1)
        x = x + self.position.to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return self.project(self.norm(x[:, 0]))


class TextTower(nn.Module):
    def __init__(self, words, length, width, layers, out):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.01)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, out, bias=False)
        self.register_buffer("mask", torch.full((length, length), -math.inf).triu_(1))

    def forward(self, ids):
        x = self.embed(ids) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        x = self.norm(x)
        return self.project(x[torch.arange(len(x), device=x.device), ids.argmax(dim=-1)])


class CLIP(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.vision = VisionTower(args.size, 16, args.width, args.layers, 512)
        self.text = TextTower(args.words, 77, args.width * 2 // 3, args.layers, 512)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, ids):
        images = F.normalize(self.vision(images), dim=-1)
        texts = F.normalize(self.text(ids), dim=-1)
        logits = self.scale.exp().clamp(max=100) * images @ texts.t()
        labels = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--words", type=int, default=49408)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = CLIP(args).cuda()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2
    )
    scaler = torch.amp.GradScaler("cuda")
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).cuda()
        ids = torch.randint(0, args.words, (args.batch_size, 77)).cuda()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(images, ids)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f} scale {model.scale.exp().item():.2f}")


if __name__ == "__main__":
    main()
