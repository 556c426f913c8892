"""Masked words with an own encoder under Lightning Fabric: fp16 scaling, no_backward_sync,
clipping.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset


class GeluGated(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        a, b = self.up(x).chunk(2, dim=-1)
        return self.down(F.gelu(a) * b)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.between = nn.LayerNorm(width)
        self.feed = GeluGated(width, 2 * width)

    def forward(self, x, padding):
        y = self.before(x)
        y, _ = self.attention(y, y, y, key_padding_mask=padding, need_weights=False)
        x = x + y
        return x + self.feed(self.between(x))


class Encoder(nn.Module):
    def __init__(self, vocab, length, width, layers):
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids):
        padding = ids == 0
        x = self.words(ids) + self.places[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, padding)
        return self.norm(x) @ self.words.weight.T + self.bias


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--precision", default="16-mixed")
    args = parser.parse_args()
    fabric = Fabric(devices=1, precision=args.precision)
    fabric.launch()
    fabric.seed_everything(0)
    model = Encoder(args.vocab, args.length, args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    model, optimizer = fabric.setup(model, optimizer)
    ids = torch.randint(2, args.vocab, (8 * args.batch_size, args.length))
    lengths = torch.randint(args.length // 2, args.length + 1, (len(ids), 1))
    ids[torch.arange(args.length)[None] >= lengths] = 0
    loader = fabric.setup_dataloaders(DataLoader(TensorDataset(ids), args.batch_size))
    for step, (batch,) in enumerate(loader):
        hidden = (torch.rand(batch.shape, device=batch.device) < 0.15) & (batch != 0)
        labels = batch.masked_fill(~hidden, -100)
        waits = step % 2 == 0
        with fabric.no_backward_sync(model, enabled=waits):
            logits = model(batch.masked_fill(hidden, 1))
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            fabric.backward(loss / 2)
        if not waits:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        fabric.print(step, loss.item())


if __name__ == "__main__":
    main()
