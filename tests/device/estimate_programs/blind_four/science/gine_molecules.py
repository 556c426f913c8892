"""Molecules of many sizes with PyG: GINE layers with bonds, virtual nodes, multi-label targets."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool, global_mean_pool


def molecule(seed, targets):
    generator = torch.Generator().manual_seed(seed)
    n = int(torch.randint(12, 60, (1,), generator=generator))
    chain = torch.arange(n - 1)
    rings = torch.randint(0, n, (2, n // 4), generator=generator)
    edges = torch.cat([torch.stack([chain, chain + 1]), rings], 1)
    edges = torch.cat([edges, edges.flip(0)], 1)
    labels = (torch.rand(1, targets, generator=generator) < 0.1).float()
    labels[torch.rand(1, targets, generator=generator) < 0.3] = float("nan")
    return Data(
        x=torch.randint(0, 40, (n, 3), generator=generator),
        edge_index=edges,
        edge_attr=torch.randint(0, 5, (edges.size(1),), generator=generator),
        y=labels,
    )


class Gine(nn.Module):
    def __init__(self, width, layers, targets):
        super().__init__()
        self.atoms = nn.ModuleList([nn.Embedding(40, width) for _ in range(3)])
        self.bonds = nn.ModuleList([nn.Embedding(5, width) for _ in range(layers)])
        self.convs = nn.ModuleList()
        self.virtual = nn.ModuleList()
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(layers)])
        for _ in range(layers):
            mlp = nn.Sequential(
                nn.Linear(width, 2 * width),
                nn.BatchNorm1d(2 * width),
                nn.ReLU(),
                nn.Linear(2 * width, width),
            )
            self.convs.append(GINEConv(mlp, train_eps=True))
            self.virtual.append(nn.Sequential(nn.Linear(width, width), nn.ReLU()))
        self.start = nn.Parameter(torch.zeros(1, width))
        self.head = nn.Linear(width, targets)

    def forward(self, batch):
        x = sum(table(batch.x[:, i]) for i, table in enumerate(self.atoms))
        shared = self.start.expand(batch.num_graphs, -1)
        for conv, norm, bond, virtual in zip(self.convs, self.norms, self.bonds, self.virtual):
            x = x + shared[batch.batch]
            h = conv(x, batch.edge_index, bond(batch.edge_attr))
            x = F.dropout(F.relu(norm(h)), 0.3, self.training) + x
            shared = shared + virtual(global_add_pool(x, batch.batch, batch.num_graphs))
        return self.head(global_mean_pool(x, batch.batch, batch.num_graphs))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--targets", type=int, default=128)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = [molecule(i, args.targets) for i in range(args.batches * args.batch_size)]
    loader = DataLoader(data, args.batch_size, shuffle=True)
    model = Gine(args.width, args.layers, args.targets).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(loader):
        batch = batch.to(device)
        out = model(batch)
        known = ~batch.y.isnan()
        loss = F.binary_cross_entropy_with_logits(out[known], batch.y[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {batch.num_nodes} atoms, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
