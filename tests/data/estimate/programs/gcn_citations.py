"""Node classification with graph convolutions on a made-up citation graph, full batch."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected


class GCN(torch.nn.Module):
    def __init__(self, inputs, hidden, classes, layers, dropout=0.5):
        super().__init__()
        sizes = [inputs, *[hidden] * (layers - 1), classes]
        self.convs = torch.nn.ModuleList(GCNConv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(hidden) for _ in range(layers - 1))
        self.dropout = dropout

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edge_index)))
            x = F.dropout(x, p=self.dropout, training=self.training)
        return self.convs[-1](x, edge_index)


def make_graph(args):
    source = torch.randint(0, args.nodes, (args.edges,))
    target = torch.randint(0, args.nodes, (args.edges,))
    edge_index = to_undirected(torch.stack([source, target]), num_nodes=args.nodes)
    split = torch.rand(args.nodes)
    return Data(
        x=torch.randn(args.nodes, args.features),
        edge_index=edge_index,
        y=torch.randint(0, args.classes, (args.nodes,)),
        train_mask=split < 0.6,
        val_mask=(split >= 0.6) & (split < 0.8),
        test_mask=split >= 0.8,
    )


def train(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)


@torch.no_grad()
def test(model, data):
    model.eval()
    predicted = model(data.x, data.edge_index).argmax(dim=-1)
    right = predicted == data.y
    return [
        int(right[m].sum()) / int(m.sum()) for m in (data.train_mask, data.val_mask, data.test_mask)
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(12345)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = make_graph(args).to(device)
    model = GCN(args.features, args.hidden, args.classes, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train(model, data, optimizer)
        train_accuracy, val_accuracy, test_accuracy = test(model, data)
        best = max(best, val_accuracy)
        print(
            f"epoch {epoch} loss {loss:.4f} train {train_accuracy:.3f} "
            f"val {val_accuracy:.3f} test {test_accuracy:.3f}"
        )
    print(f"best validation accuracy {best:.3f}")


if __name__ == "__main__":
    main()
