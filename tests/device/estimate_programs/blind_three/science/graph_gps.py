"""Molecules with torch-geometric: edge-aware message passing, global attention, a virtual node."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, GPSConv, global_add_pool
from torch_geometric.utils import to_undirected


def molecule(atoms_low, atoms_high):
    """A random tree with a few rings."""
    n = int(torch.randint(atoms_low, atoms_high + 1, ()))
    children = torch.arange(1, n)
    parents = (torch.rand(n - 1) * children).long()
    rings = torch.randint(0, n, (2, max(1, n // 8)))
    edges = to_undirected(torch.cat([torch.stack([parents, children]), rings], dim=1))
    return Data(
        x=torch.randint(0, 28, (n,)),
        edge_index=edges,
        edge_attr=torch.randint(0, 4, (edges.size(1),)),
        y=torch.randn(1),
        num_nodes=n,
    )


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.conv = GPSConv(width, GINEConv(mlp), heads=heads, attn_type="multihead", dropout=0.1)
        self.virtual = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())

    def forward(self, x, edges, features, batch, state):
        x = x + state[batch]
        x = self.conv(x, edges, batch, edge_attr=features)
        return x, state + self.virtual(global_add_pool(x, batch))


class GPS(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.atoms = nn.Embedding(28, width)
        self.bonds = nn.Embedding(4, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.start = nn.Parameter(torch.zeros(1, width))
        self.out = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, data):
        x, features = self.atoms(data.x), self.bonds(data.edge_attr)
        state = self.start.expand(data.num_graphs, -1)
        for layer in self.layers:
            x, state = layer(x, data.edge_index, features, data.batch, state)
        return self.out(torch.cat([global_add_pool(x, data.batch), state], 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--atoms", type=int, nargs=2, default=[20, 90])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = [molecule(*args.atoms) for _ in range(args.batches * args.batch_size)]
    loader = DataLoader(graphs, args.batch_size, shuffle=True)
    model = GPS(args.width, args.heads, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-5)
    rate = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
    for step, data in enumerate(loader):
        data = data.to(device)
        loss = F.l1_loss(model(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        print(f"step {step}: {data.num_nodes} atoms, {loss.item():.4f}")
    model.eval()
    errors = []
    with torch.no_grad():
        for data in loader:
            data = data.to(device)
            errors.append((model(data) - data.y).abs())
    print("mean error", torch.cat(errors).mean().item())


if __name__ == "__main__":
    main()
