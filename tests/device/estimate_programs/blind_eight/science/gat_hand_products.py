"""A graph attention network on one large graph, written with index_add and scatter_reduce; full
batches, an evaluation after every epoch.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class GATLayer(nn.Module):
    def __init__(self, inputs, outputs, heads, concat=True):
        super().__init__()
        self.heads, self.outputs, self.concat = heads, outputs, concat
        self.lin = nn.Linear(inputs, heads * outputs, bias=False)
        self.att_src = nn.Parameter(torch.randn(1, heads, outputs) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(1, heads, outputs) * 0.1)
        self.bias = nn.Parameter(torch.zeros(heads * outputs if concat else outputs))

    def forward(self, x, edges):
        source, target = edges
        nodes = x.size(0)
        h = self.lin(x).view(nodes, self.heads, self.outputs)
        alpha = (h * self.att_src).sum(-1)[source] + (h * self.att_dst).sum(-1)[target]
        alpha = F.leaky_relu(alpha, 0.2)
        index = target[:, None].expand_as(alpha)
        most = alpha.new_full((nodes, self.heads), -1e9)
        most = most.scatter_reduce(0, index, alpha.detach(), "amax")
        weight = (alpha - most[target]).exp()
        total = weight.new_zeros(nodes, self.heads).index_add_(0, target, weight)
        weight = F.dropout(weight / (total[target] + 1e-16), 0.3, self.training)
        out = h.new_zeros(nodes, self.heads, self.outputs)
        out = out.index_add(0, target, h[source] * weight.unsqueeze(-1))
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class GAT(nn.Module):
    def __init__(self, features, hidden, classes, heads):
        super().__init__()
        self.first = GATLayer(features, hidden, heads)
        self.second = GATLayer(hidden * heads, hidden, heads)
        self.last = GATLayer(hidden * heads, classes, 1, concat=False)

    def forward(self, x, edges):
        x = F.elu(self.first(F.dropout(x, 0.3, self.training), edges))
        x = F.elu(self.second(F.dropout(x, 0.3, self.training), edges))
        return self.last(x, edges)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=60000)
    parser.add_argument("--edges", type=int, default=600000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--classes", type=int, default=47)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    x = torch.randn(args.nodes, args.features)
    edges = torch.randint(0, args.nodes, (2, args.edges))
    edges = torch.cat([edges, edges.flip(0), torch.arange(args.nodes).repeat(2, 1)], dim=1)
    y = torch.randint(0, args.classes, (args.nodes,))
    train = torch.rand(args.nodes) < 0.1
    x, edges, y, train = x.to(device), edges.to(device), y.to(device), train.to(device)
    model = GAT(args.features, args.hidden, args.classes, args.heads).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges)[train], y[train])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, edges).argmax(-1) == y)[~train].float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {right.item():.4f}")


if __name__ == "__main__":
    main()
