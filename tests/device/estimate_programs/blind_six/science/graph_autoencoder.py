"""A variational graph autoencoder with torch's sparse products; negatives drawn anew in every
epoch.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def adjacency(edges, nodes):
    loops = torch.arange(nodes).repeat(2, 1)
    edges = torch.cat([edges, edges.flip(0), loops], dim=1)
    degree = torch.zeros(nodes).index_add_(0, edges[0], torch.ones(edges.shape[1]))
    values = degree[edges[0]].rsqrt() * degree[edges[1]].rsqrt()
    return torch.sparse_coo_tensor(edges, values, (nodes, nodes)).coalesce()


class Convolve(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, graph):
        return torch.sparse.mm(graph, x @ self.weight)


class Autoencoder(nn.Module):
    def __init__(self, features, hidden, latent):
        super().__init__()
        self.shared = Convolve(features, hidden)
        self.mean, self.spread = Convolve(hidden, latent), Convolve(hidden, latent)

    def forward(self, x, graph):
        h = F.relu(self.shared(x, graph))
        mean, spread = self.mean(h, graph), self.spread(h, graph).clamp(max=10)
        z = mean + torch.randn_like(mean) * spread.exp() if self.training else mean
        return z, mean, spread


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=120_000)
    parser.add_argument("--edges", type=int, default=1_500_000)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(0)
    edges = torch.randint(0, args.nodes, (2, args.edges))
    graph = adjacency(edges, args.nodes).cuda()
    x, edges = torch.randn(args.nodes, args.features).cuda(), edges.cuda()
    model = Autoencoder(args.features, args.hidden, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(5):
        z, mean, spread = model(x, graph)
        negative = torch.randint(0, args.nodes, edges.shape, device="cuda")
        score = (z[edges[0]] * z[edges[1]]).sum(-1)
        against = (z[negative[0]] * z[negative[1]]).sum(-1)
        loss = F.softplus(-score).mean() + F.softplus(against).mean()
        loss = (
            loss - 0.5 / args.nodes * (1 + 2 * spread - mean**2 - (2 * spread).exp()).sum(1).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
