"""Message passing on molecules with an edge network and a GRU, batches of ragged graphs."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Molecules(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = int(torch.randint(9, 30, (1,), generator=g))
        parents = torch.cat([torch.randint(0, max(1, k), (1,), generator=g) for k in range(1, n)])
        children = torch.arange(1, n)
        edges = torch.stack((torch.cat((parents, children)), torch.cat((children, parents))))
        return {
            "x": torch.randn(n, 16, generator=g),
            "edges": edges,
            "kind": torch.rand(edges.size(1), 5, generator=g),
            "y": torch.randn(1, generator=g),
        }


def collate(items):
    sizes = torch.tensor([len(m["x"]) for m in items])
    shift = torch.cat((torch.zeros(1, dtype=torch.long), sizes.cumsum(0)[:-1]))
    return {
        "x": torch.cat([m["x"] for m in items]),
        "edges": torch.cat([m["edges"] + s for m, s in zip(items, shift)], dim=1),
        "kind": torch.cat([m["kind"] for m in items]),
        "owner": torch.repeat_interleave(torch.arange(len(items)), sizes),
        "y": torch.cat([m["y"] for m in items]),
    }


class MPNN(nn.Module):
    def __init__(self, width, rounds):
        super().__init__()
        self.width, self.rounds = width, rounds
        self.first = nn.Linear(16, width)
        self.edge = nn.Sequential(nn.Linear(5, 128), nn.ReLU(), nn.Linear(128, width * width))
        self.gru = nn.GRUCell(width, width)
        self.gate, self.value = nn.Linear(2 * width, width), nn.Linear(width, width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, edges, kind, owner, graphs):
        start = h = F.relu(self.first(x))
        matrices = self.edge(kind).view(-1, self.width, self.width)
        source, target = edges
        for _ in range(self.rounds):
            messages = torch.bmm(h[source].unsqueeze(1), matrices).squeeze(1)
            gathered = torch.zeros_like(h).scatter_add_(
                0, target.unsqueeze(1).expand_as(messages), messages
            )
            h = self.gru(gathered, h)
        read = torch.sigmoid(self.gate(torch.cat((h, start), dim=1))) * self.value(h)
        pooled = torch.zeros(graphs, self.width, device=x.device).index_add_(0, owner, read)
        return self.out(pooled).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--width", type=int, default=73)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(90)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = MPNN(args.width, args.rounds).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(
        Molecules(args.batches * args.batch_size),
        args.batch_size,
        collate_fn=collate,
        num_workers=2,
    )
    for epoch in range(2):
        total = 0.0
        for batch in loader:
            batch = {key: value.to(device) for key, value in batch.items()}
            y = batch.pop("y")
            loss = F.l1_loss(model(**batch, graphs=len(y)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(loader))


if __name__ == "__main__":
    main()
