"""Residue pairs in the manner of AlphaFold: triangle products and attention, checkpointed."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class TriangleProduct(nn.Module):
    def __init__(self, dim, outgoing):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.sides = nn.Linear(dim, 2 * dim)
        self.gates = nn.Linear(dim, 2 * dim)
        self.out, self.gate = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"

    def forward(self, z):
        z = self.norm(z)
        a, b = (self.sides(z) * self.gates(z).sigmoid()).chunk(2, -1)
        return self.out(self.last(torch.einsum(self.equation, a, b))) * self.gate(z).sigmoid()


class TriangleAttention(nn.Module):
    def __init__(self, dim, heads, columns):
        super().__init__()
        self.heads, self.columns = heads, columns
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = nn.Linear(dim, heads, bias=False)
        self.gate, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, z):
        if self.columns:
            z = z.transpose(1, 2)
        z = self.norm(z)
        B, N, _, C = z.shape
        q, k, v = self.qkv(z).view(B, N, N, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)
        bias = self.bias(z).permute(0, 3, 1, 2).unsqueeze(1)
        scores = q @ k.transpose(-1, -2) * (C // self.heads) ** -0.5 + bias
        y = (scores.softmax(-1) @ v).transpose(2, 3).reshape(B, N, N, C)
        y = self.out(y * self.gate(z).sigmoid())
        return y.transpose(1, 2) if self.columns else y


class PairLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.parts = nn.ModuleList(
            [
                TriangleProduct(dim, outgoing=True),
                TriangleProduct(dim, outgoing=False),
                TriangleAttention(dim, heads, columns=False),
                TriangleAttention(dim, heads, columns=True),
                nn.Sequential(
                    nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim)
                ),
            ]
        )

    def forward(self, z):
        for part in self.parts:
            z = z + part(z)
        return z


class Distances(nn.Module):
    def __init__(self, dim, heads, layers, bins):
        super().__init__()
        self.left, self.right = nn.Embedding(21, dim), nn.Embedding(21, dim)
        self.offset = nn.Embedding(65, dim)
        self.layers = nn.ModuleList(PairLayer(dim, heads) for _ in range(layers))
        self.out = nn.Linear(dim, bins)

    def forward(self, residues):
        place = torch.arange(residues.size(1), device=residues.device)
        offset = (place[:, None] - place[None, :]).clamp(-32, 32) + 32
        z = self.left(residues)[:, :, None] + self.right(residues)[:, None] + self.offset(offset)
        for layer in self.layers:
            z = checkpoint(layer, z, use_reentrant=False) if self.training else layer(z)
        return self.out(z + z.transpose(1, 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--residues", type=int, default=224)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--bins", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Distances(args.dim, args.heads, args.layers, args.bins).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    edges = torch.linspace(2, 22, args.bins - 1, device=device)
    for step in range(args.steps):
        residues = torch.randint(21, (args.batch_size, args.residues), device=device)
        chain = torch.randn(args.batch_size, args.residues, 3, device=device).cumsum(1)
        bins = torch.bucketize(torch.cdist(chain, chain), edges)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(residues)
        loss = F.cross_entropy(logits.float().permute(0, 3, 1, 2), bins)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        print("right bins", (model(residues).argmax(-1) == bins).float().mean().item())


if __name__ == "__main__":
    main()
