"""Graph isomorphism networks on batches of molecules of different sizes: node and bond embeddings,
a virtual node per molecule, the mean of the nodes read out.
"""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Molecules(Dataset):
    def __init__(self, count, shortest, longest):
        self.count, self.shortest, self.longest = count, shortest, longest

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = random.Random(i)
        atoms = rng.randint(self.shortest, self.longest)
        bonds = [(a, rng.randrange(a)) for a in range(1, atoms)]
        bonds += [(rng.randrange(atoms), rng.randrange(atoms)) for _ in range(atoms // 5)]
        source, target = zip(*bonds)
        edges = torch.tensor([source + target, target + source])
        kinds = torch.tensor([rng.randrange(5) for _ in bonds]).repeat(2)
        return torch.tensor([rng.randrange(100) for _ in range(atoms)]), edges, kinds, rng.random()


def collate(rows):
    atoms, edges, kinds, owners, labels, start = [], [], [], [], [], 0
    for number, (a, e, k, label) in enumerate(rows):
        atoms.append(a)
        edges.append(e + start)
        kinds.append(k)
        owners.append(torch.full((len(a),), number))
        labels.append(label)
        start += len(a)
    joined = [torch.cat(atoms), torch.cat(edges, 1), torch.cat(kinds), torch.cat(owners)]
    return [*joined, torch.tensor(labels)]


class GIN(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.atoms = nn.Embedding(100, dim)
        self.bonds = nn.ModuleList(nn.Embedding(5, dim) for _ in range(layers))
        self.eps = nn.Parameter(torch.zeros(layers))
        self.mlps = nn.ModuleList(self.mlp(dim) for _ in range(layers))
        self.virtual = nn.ModuleList(self.mlp(dim) for _ in range(layers - 1))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers))
        self.out = nn.Linear(dim, 1)

    @staticmethod
    def mlp(dim):
        return nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.BatchNorm1d(2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, atoms, edges, kinds, owners, count):
        x = self.atoms(atoms)
        hub = x.new_zeros(count, x.size(1))
        for i, (mlp, norm) in enumerate(zip(self.mlps, self.norms)):
            x = x + hub[owners]
            message = F.relu(x[edges[0]] + self.bonds[i](kinds))
            total = torch.zeros_like(x).index_add_(0, edges[1], message)
            h = norm(mlp((1 + self.eps[i]) * x + total))
            if i < len(self.virtual):
                pooled = torch.zeros_like(hub).index_add_(0, owners, x)
                hub = hub + self.virtual[i](pooled + hub)
                h = F.relu(h)
            x = F.dropout(h, 0.1, self.training) + x
        pooled = x.new_zeros(count, x.size(1)).index_add_(0, owners, x)
        sizes = torch.bincount(owners, minlength=count).clamp(min=1)
        return self.out(pooled / sizes[:, None]).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--shortest", type=int, default=8)
    parser.add_argument("--longest", type=int, default=48)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--layers", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    data = Molecules(args.batch_size * args.batches, args.shortest, args.longest)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=2, collate_fn=collate)
    model = GIN(args.dim, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    for i, batch in enumerate(loader):
        atoms, edges, kinds, owners, labels = (tensor.to(device) for tensor in batch)
        loss = F.l1_loss(model(atoms, edges, kinds, owners, len(labels)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"batch {i} atoms {len(atoms)} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
