"""Papers, authors and venues with PyG: heterogeneous attention on the whole graph."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import HGTConv


def graph(args):
    data = HeteroData()
    counts = {"paper": args.papers, "author": args.papers // 2, "venue": args.papers // 100}
    for name, count in counts.items():
        data[name].x = torch.randn(count, args.features)
    wanted = [
        ("paper", "cites", "paper", args.papers * args.degree),
        ("author", "writes", "paper", args.papers * 3),
        ("paper", "appears", "venue", args.papers),
    ]
    for source, relation, target, count in wanted:
        edges = torch.stack(
            [torch.randint(counts[source], (count,)), torch.randint(counts[target], (count,))]
        )
        data[source, relation, target].edge_index = edges
        data[target, f"rev_{relation}", source].edge_index = edges.flip(0)
    data["paper"].y = torch.randint(args.classes, (args.papers,))
    data["paper"].train_mask = torch.rand(args.papers) < 0.6
    return data


class Hgt(nn.Module):
    def __init__(self, data, features, width, heads, layers, classes):
        super().__init__()
        self.first = nn.ModuleDict({name: nn.Linear(features, width) for name in data.node_types})
        self.convs = nn.ModuleList(
            [HGTConv(width, width, data.metadata(), heads) for _ in range(layers)]
        )
        self.out = nn.Linear(width, classes)

    def forward(self, xs, edges):
        xs = {name: F.relu(self.first[name](x)) for name, x in xs.items()}
        for conv in self.convs:
            new = conv(xs, edges)
            xs = {name: F.layer_norm(x + new[name], x.shape[-1:]) for name, x in xs.items()}
        return self.out(xs["paper"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--papers", type=int, default=20_000)
    parser.add_argument("--degree", type=int, default=8)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = graph(args).to(device)
    model = Hgt(data, args.features, args.width, args.heads, args.layers, args.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    train = data["paper"].train_mask
    for step in range(args.steps):
        model.train()
        out = model(data.x_dict, data.edge_index_dict)
        loss = F.cross_entropy(out[train], data["paper"].y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(data.x_dict, data.edge_index_dict).argmax(1)
            right = (guess[~train] == data["paper"].y[~train]).float().mean()
        print(f"step {step}: loss {loss.item():.4f} right {right.item():.4f}")


if __name__ == "__main__":
    main()
