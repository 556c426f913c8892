"""A graph convolution network over a whole citation graph with sparse products and index_add_."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class SparseConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, self.linear(x)) + self.bias


class MeanConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.near = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x, source, target, degree):
        gathered = torch.zeros_like(x).index_add_(0, target, x[source])
        return self.own(x) + self.near(gathered / degree)


class Net(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first = SparseConv(features, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.second = MeanConv(hidden, hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, x, adjacency, source, target, degree):
        x = F.relu(self.norm(self.first(x, adjacency)))
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(self.second(x, source, target, degree))
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=120_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    source = torch.randint(0, args.nodes, (args.edges,), device=device)
    target = torch.randint(0, args.nodes, (args.edges,), device=device)
    degree = torch.bincount(target, minlength=args.nodes).clamp(min=1).float()
    weight = (degree[source] * degree[target]).rsqrt()
    adjacency = torch.sparse_coo_tensor(
        torch.stack([target, source]), weight, (args.nodes, args.nodes)
    ).coalesce()
    x = torch.randn(args.nodes, args.features, device=device)
    y = torch.randint(0, 40, (args.nodes,), device=device)
    train = torch.rand(args.nodes, device=device) < 0.6
    model = Net(args.features, args.hidden, 40).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        out = model(x, adjacency, source, target, degree.unsqueeze(1))
        loss = F.cross_entropy(out[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(x, adjacency, source, target, degree.unsqueeze(1))
            accuracy = (out.argmax(1) == y)[~train].float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} held out {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
