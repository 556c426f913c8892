"""Click rates with DeepFM: large embedding bags with sparse gradients, two optimizers, AUC at
the end.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class DeepFM(nn.Module):
    def __init__(self, rows, fields, size, width):
        super().__init__()
        self.factors = nn.Embedding(rows, size, sparse=True)
        self.linear = nn.Embedding(rows, 1, sparse=True)
        self.history = nn.EmbeddingBag(rows, size, mode="sum", sparse=True)
        n = (fields + 1) * size
        self.deep = nn.Sequential(
            nn.Linear(n, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, fields, seen, offsets):
        v = torch.cat([self.factors(fields), self.history(seen, offsets)[:, None]], dim=1)
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
        return self.linear(fields).sum((1, 2)) + pairs + self.deep(v.flatten(1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--fields", type=int, default=26)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=1024)
    args = parser.parse_args()
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = DeepFM(args.rows, args.fields, args.size, args.width)
    tables = [model.factors.weight, model.linear.weight, model.history.weight]
    sparse = torch.optim.SparseAdam(tables, lr=1e-3)
    dense = torch.optim.Adam(model.deep.parameters(), lr=1e-3)
    scores, truths = [], []
    for step in range(4):
        fields = torch.randint(0, args.rows, (args.batch_size, args.fields)).to("cuda")
        counts = torch.randint(1, 20, (args.batch_size,))
        offsets = F.pad(counts.cumsum(0)[:-1], (1, 0)).to("cuda")
        seen = torch.randint(0, args.rows, (int(counts.sum()),)).to("cuda")
        clicked = (torch.rand(args.batch_size) < 0.2).float().to("cuda")
        out = model(fields, seen, offsets)
        loss = F.binary_cross_entropy_with_logits(out, clicked)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        scores.append(out.detach().sigmoid())
        truths.append(clicked)
        print(step, loss.item())
    order = torch.cat(scores).argsort()
    ranks = torch.empty_like(order, dtype=torch.float)
    ranks[order] = torch.arange(1, len(order) + 1, device="cuda").float()
    truth = torch.cat(truths).bool()
    n = truth.sum()
    auc = (ranks[truth].sum() - n * (n + 1) / 2) / (n * (~truth).sum())
    print("auc", auc.item())


if __name__ == "__main__":
    main()
