"""Graph attention on batches of molecules of varying size: pooling, regression, a graph loader."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, global_mean_pool


class MoleculeNet(nn.Module):
    def __init__(self, atoms, bonds, hidden, heads, layers):
        super().__init__()
        self.atoms = nn.Embedding(atoms, hidden)
        self.bonds = nn.Embedding(bonds, 32)
        self.convs = nn.ModuleList(
            GATv2Conv(hidden, hidden // heads, heads=heads, edge_dim=32, dropout=0.1)
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, data):
        x = self.atoms(data.x)
        edge_attr = self.bonds(data.edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.elu(conv(norm(x), data.edge_index, edge_attr))
        return self.head(global_mean_pool(x, data.batch)).squeeze(-1)


def molecule(rng, longest):
    """A chain of atoms with a few rings."""
    count = rng.randint(longest // 3, longest)
    edges = [(i, i + 1) for i in range(count - 1)]
    edges += [(rng.randrange(count), rng.randrange(count)) for _ in range(count // 6)]
    both = torch.tensor(edges + [(b, a) for a, b in edges]).t().contiguous()
    return Data(
        x=torch.randint(0, 20, (count,)),
        edge_index=both,
        edge_attr=torch.randint(0, 4, (both.size(1),)),
        y=torch.randn(1),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--longest", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    rng = random.Random(3)
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    molecules = [molecule(rng, args.longest) for _ in range(args.batch_size * args.steps)]
    loader = DataLoader(molecules, batch_size=args.batch_size, shuffle=True)
    model = MoleculeNet(20, 4, args.hidden, args.heads, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    for epoch in range(2):
        model.train()
        total = 0.0
        for data in loader:
            data = data.to(device)
            optimizer.zero_grad()
            loss = F.l1_loss(model(data), data.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * data.num_graphs
        model.eval()
        with torch.no_grad():
            data = next(iter(loader)).to(device)
            valid = F.l1_loss(model(data), data.y).item()
        scheduler.step(valid)
        print(f"epoch {epoch} train {total / len(molecules):.4f} valid {valid:.4f}")


if __name__ == "__main__":
    main()
