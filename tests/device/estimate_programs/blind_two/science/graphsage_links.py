"""Link prediction with GraphSAGE: new negative edges in every epoch, hits at 50 for validation."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import coalesce, negative_sampling, to_undirected


class SAGE(nn.Module):
    def __init__(self, features, hidden, layers, dropout):
        super().__init__()
        sizes = [features] + [hidden] * layers
        self.convs = nn.ModuleList(SAGEConv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers - 1))
        self.dropout = dropout

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs[:-1], self.norms):
            x = F.relu(norm(conv(x, edge_index)))
            x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index)


class LinkPredictor(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.lins = nn.Sequential(
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, 1)
        )

    def forward(self, h, edges):
        return self.lins(h[edges[0]] * h[edges[1]]).squeeze(-1)


def make_graph(nodes, edges, features):
    # A few nodes have many neighbours.
    source = torch.randint(0, nodes, (edges,))
    target = (torch.rand(edges) ** 3 * nodes).long()
    keep = source != target
    edge_index = coalesce(torch.stack([source[keep], target[keep]]))
    return Data(x=torch.randn(nodes, features), edge_index=edge_index, num_nodes=nodes)


@torch.no_grad()
def hits(model, predictor, data, train_edges, valid, k=50):
    model.eval()
    predictor.eval()
    h = model(data.x, train_edges)
    positive = torch.cat([predictor(h, part) for part in valid.split(50000, dim=1)])
    random = torch.randint(0, data.num_nodes, (2, 100000), device=h.device)
    negative = predictor(h, random)
    threshold = negative.topk(k).values[-1]
    return (positive > threshold).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=60000)
    parser.add_argument("--edges", type=int, default=600000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64 * 1024)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = make_graph(args.nodes, args.edges, args.features)
    order = torch.randperm(data.edge_index.size(1))
    cut = int(0.95 * len(order))
    train, valid = data.edge_index[:, order[:cut]], data.edge_index[:, order[cut:]]
    data = data.to(device)
    train, valid = train.to(device), valid.to(device)
    message_edges = to_undirected(train)
    print("edges for messages:", message_edges.size(1))

    model = SAGE(args.features, args.hidden, args.layers, 0.3).to(device)
    predictor = LinkPredictor(args.hidden).to(device)
    params = list(model.parameters()) + list(predictor.parameters())
    optimizer = torch.optim.Adam(params, lr=1e-3)

    for epoch in range(args.epochs):
        model.train()
        predictor.train()
        permutation = torch.randperm(train.size(1), device=device)
        total = 0.0
        for batch in permutation.split(args.batch_size)[: args.batches]:
            optimizer.zero_grad()
            h = model(data.x, message_edges)
            positive = predictor(h, train[:, batch])
            fake = negative_sampling(
                train, num_nodes=data.num_nodes, num_neg_samples=len(batch), method="sparse"
            )
            negative = predictor(h, fake)
            loss = -F.logsigmoid(positive).mean() - F.logsigmoid(-negative).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            total += loss.item()
        score = hits(model, predictor, data, message_edges, valid)
        print(f"epoch {epoch}: loss {total / args.batches:.4f}, hits@50 {score:.4f}")


if __name__ == "__main__":
    main()
