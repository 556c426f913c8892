"""The next item by a transformer over histories: a sparse table with Adagrad, sampled softmax."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class History(nn.Module):
    def __init__(self, dim, length, heads, layers):
        super().__init__()
        self.place = nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.2, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.context = nn.EmbeddingBag(10_000, dim, mode="mean")
        self.norm = nn.LayerNorm(dim)

    def forward(self, embedded, tags, offsets):
        T = embedded.size(1)
        x = embedded + self.place.weight[:T] + self.context(tags, offsets).unsqueeze(1)
        mask = torch.triu(torch.full((T, T), float("-inf"), device=x.device), diagonal=1)
        return self.norm(self.encoder(x, mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--items", type=int, default=3_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--negatives", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    items = nn.Embedding(args.items, args.dim, sparse=True, device=device)
    with torch.no_grad():
        items.weight.mul_(args.dim**-0.5)
    model = History(args.dim, args.length, 4, args.layers).to(device)
    dense = torch.optim.Adam(model.parameters(), lr=1e-3)
    sparse = torch.optim.Adagrad(items.parameters(), lr=0.05)
    for step in range(args.steps):
        history = torch.randint(args.items, (args.batch_size, args.length + 1), device=device)
        counts = torch.randint(1, 12, (args.batch_size,))
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)[:-1]])
        tags = torch.randint(10_000, (int(counts.sum()),))
        h = model(items(history[:, :-1]), tags.to(device), offsets.to(device)).flatten(0, 1)
        wanted = items(history[:, 1:]).flatten(0, 1)
        others = items(torch.randint(args.items, (args.negatives,), device=device))
        right = (h * wanted).sum(-1, keepdim=True)
        logits = torch.cat([right, h @ others.T], dim=1) / 0.1
        loss = F.cross_entropy(logits, torch.zeros(len(h), dtype=torch.long, device=device))
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        dense.step()
        sparse.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        few = history[:64, 1:]
        tags, offsets = tags[: int(counts[:64].sum())].to(device), offsets[:64].to(device)
        last = model(items(few), tags, offsets)[:, -1]
        best = [(last @ part.T).topk(20, dim=1).values for part in items.weight.split(500_000)]
        print("best scores", torch.cat(best, 1).topk(20).values[:, 0].mean().item())


if __name__ == "__main__":
    main()
