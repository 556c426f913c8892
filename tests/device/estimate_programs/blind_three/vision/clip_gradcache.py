"""Contrastive images and words with a large batch: embeddings first, gradients in parts."""

import argparse
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import convnext_tiny


class Words(nn.Module):
    def __init__(self, vocab, length, dim, layers, out):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Parameter(0.01 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(dim, 8, 4 * dim, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, out, bias=False)

    def forward(self, ids):
        h = self.encoder(self.embed(ids) + self.place[: ids.size(1)])
        last = (ids != 0).sum(1) - 1
        return self.out(h[torch.arange(len(ids), device=ids.device), last])


class GradCache:
    """Embeds all parts without a graph, takes the loss's gradient there, then replays each part."""

    def __init__(self, tower, part, device, dtype):
        self.tower, self.part = tower, part
        self.cast = lambda: torch.autocast(device.type, dtype=dtype)

    def embed(self, data, keep_graph):
        context = contextlib.nullcontext() if keep_graph else torch.no_grad()
        with context, self.cast():
            return F.normalize(self.tower(data).float(), dim=-1)

    def first(self, data):
        parts = [self.embed(chunk, keep_graph=False) for chunk in data.split(self.part)]
        return torch.cat(parts).requires_grad_()

    def replay(self, data, gradient):
        for chunk, g in zip(data.split(self.part), gradient.split(self.part)):
            self.embed(chunk, keep_graph=True).backward(g)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--part", type=int, default=256)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images_tower = convnext_tiny(weights=None, num_classes=args.dim).to(device)
    words_tower = Words(args.vocab, args.tokens, args.dim, args.layers, args.dim).to(device)
    scale = nn.Parameter(torch.tensor(2.66, device=device))
    optimizer = torch.optim.AdamW(
        [*images_tower.parameters(), *words_tower.parameters(), scale], lr=5e-4, weight_decay=0.2
    )
    image_side = GradCache(images_tower, args.part, device, torch.bfloat16)
    word_side = GradCache(words_tower, args.part, device, torch.bfloat16)
    labels = torch.arange(args.batch_size, device=device)
    for step in range(args.steps):
        shape = (args.batch_size, 3, args.size, args.size)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        images = images.half().div_(255)
        lengths = torch.randint(4, args.tokens + 1, (args.batch_size, 1), device=device)
        ids = torch.randint(1, args.vocab, (args.batch_size, args.tokens), device=device)
        ids = ids * (torch.arange(args.tokens, device=device) < lengths)
        a, b = image_side.first(images), word_side.first(ids)
        logits = scale.exp() * a @ b.T
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
        optimizer.zero_grad()
        loss.backward()
        image_side.replay(images, a.grad)
        word_side.replay(ids, b.grad)
        optimizer.step()
        with torch.no_grad():
            scale.clamp_(0, 4.6)
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
