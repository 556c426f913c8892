"""A recommender (DLRM): bags of sparse embeddings, feature interaction, two optimizers."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(sizes, last):
    layers = []
    for number, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(a, b))
        if number < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers, last)


class DLRM(nn.Module):
    def __init__(self, rows, tables, size, dense):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, size, mode="sum", sparse=True) for _ in range(tables)
        )
        for table in self.tables:
            nn.init.uniform_(table.weight, -(rows**-0.5), rows**-0.5)
        self.bottom = mlp([dense, 512, 256, size], nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = mlp([pairs + size, 1024, 512, 1], nn.Flatten(0))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        features = [x, *(t(i, o) for t, i, o in zip(self.tables, ids, offsets))]
        stacked = torch.stack(features, dim=1)
        dots = torch.bmm(stacked, stacked.transpose(1, 2))
        interactions = dots[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, interactions], dim=1))


def clicks(args, device):
    dense = torch.randn(args.batch_size, 13, device=device)
    ids, offsets = [], []
    for _ in range(args.tables):
        bag = torch.randint(1, 5, (args.batch_size,))
        ids.append(torch.randint(0, args.rows, (int(bag.sum()),)).to(device))
        offsets.append((bag.cumsum(0) - bag).to(device))
    return dense, ids, offsets, torch.randint(0, 2, (args.batch_size,), device=device).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=123)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DLRM(args.rows, args.tables, args.size, 13).to(device)
    sparse = torch.optim.SparseAdam(list(model.tables.parameters()), lr=1e-3)
    dense_parameters = [*model.bottom.parameters(), *model.top.parameters()]
    optimizer = torch.optim.Adagrad(dense_parameters, lr=1e-2)
    for step in range(args.steps):
        dense, ids, offsets, labels = clicks(args, device)
        logits = model(dense, ids, offsets)
        loss = F.binary_cross_entropy_with_logits(logits, labels)
        sparse.zero_grad()
        optimizer.zero_grad()
        loss.backward()
        sparse.step()
        optimizer.step()
        right = ((logits > 0) == (labels > 0.5)).float().mean()
        print(f"step {step} loss {loss.item():.4f} accuracy {right.item():.3f}")
    model.eval()
    with torch.no_grad():
        dense, ids, offsets, _ = clicks(args, device)
        scores = torch.sigmoid(model(dense, ids, offsets))
        print("best ten:", scores.topk(10).indices.tolist())


if __name__ == "__main__":
    main()
