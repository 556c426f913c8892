"""Compiles the whole training step of a masked encoder with torch.compile, optimizer included."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    """Tokens are mixed by a depthwise convolution and a gate instead of attention."""

    def __init__(self, dim, kernel):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, 2 * dim)
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.outer = nn.Linear(dim, dim)
        self.feed_norm = nn.LayerNorm(dim)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        value, gate = self.inner(self.norm(x)).chunk(2, -1)
        mixed = self.conv(value.transpose(1, 2)).transpose(1, 2)
        x = x + self.outer(mixed * gate.sigmoid())
        return x + self.feed(self.feed_norm(x))


class Encoder(nn.Module):
    def __init__(self, vocab, length, dim, layers, kernel):
        super().__init__()
        self.embed = nn.Embedding(vocab + 1, dim)
        self.place = nn.Parameter(torch.zeros(length, dim))
        self.layers = nn.Sequential(*[Mixer(dim, kernel) for _ in range(layers)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids) + self.place))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--kernel", type=int, default=7)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder(args.vocab, args.length, args.dim, args.layers, args.kernel).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def train_step(ids, hidden):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(torch.where(hidden, args.vocab, ids))
            losses = F.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
            loss = (losses * hidden).sum() / hidden.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    if not args.no_compile:
        train_step = torch.compile(train_step)
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length), device=device)
        hidden = torch.rand(ids.shape, device=device) < 0.15
        print(f"step {step}: {train_step(ids, hidden).item():.4f}")


if __name__ == "__main__":
    main()
