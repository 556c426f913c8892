"""Link prediction in a knowledge graph: relational convolution with bases, DistMult, negatives."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelationalConv(nn.Module):
    def __init__(self, c_in, c_out, relations, bases):
        super().__init__()
        self.bases = nn.Parameter(torch.randn(bases, c_in, c_out) / c_in**0.5)
        self.mix = nn.Parameter(torch.randn(relations, bases) / bases**0.5)
        self.own = nn.Linear(c_in, c_out)

    def forward(self, x, source, target, relation, norm):
        out = self.own(x)
        weights = torch.einsum("rb,bio->rio", self.mix, self.bases)
        for r in range(len(weights)):
            at = (relation == r).nonzero(as_tuple=True)[0]
            messages = x[source[at]] @ weights[r] * norm[at].unsqueeze(1)
            out = out.index_add(0, target[at], messages)
        return out


class Model(nn.Module):
    def __init__(self, nodes, relations, width, bases):
        super().__init__()
        self.embed = nn.Embedding(nodes, width)
        self.conv1 = RelationalConv(width, width, 2 * relations, bases)
        self.conv2 = RelationalConv(width, width, 2 * relations, bases)
        self.relation = nn.Parameter(torch.randn(relations, width) * 0.1)

    def encode(self, *graph):
        x = F.relu(self.conv1(self.embed.weight, *graph))
        return self.conv2(F.dropout(x, 0.2, self.training), *graph)

    def score(self, z, head, relation, tail):
        return (z[head] * self.relation[relation] * z[tail]).sum(dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=40_000)
    parser.add_argument("--edges", type=int, default=400_000)
    parser.add_argument("--relations", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--bases", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(44)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    head = torch.randint(args.nodes, (args.edges,))
    tail = torch.randint(args.nodes, (args.edges,))
    relation = torch.randint(args.relations, (args.edges,))
    source, target = torch.cat((head, tail)), torch.cat((tail, head))
    kinds = torch.cat((relation, relation + args.relations))
    degree = torch.bincount(target, minlength=args.nodes).clamp(min=1)
    graph = [t.to(device) for t in (source, target, kinds, 1 / degree[target].float())]
    head, tail, relation = (t.to(device) for t in (head, tail, relation))
    model = Model(args.nodes, args.relations, args.width, args.bases).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        model.train()
        z = model.encode(*graph)
        rows = torch.randperm(args.edges, device=device)[: args.edges // 4]
        good = model.score(z, head[rows], relation[rows], tail[rows])
        wrong = torch.randint(args.nodes, (len(rows),), device=device)
        bad = model.score(z, head[rows], relation[rows], wrong)
        loss = F.softplus(-good).mean() + F.softplus(bad).mean()
        loss = loss + 1e-2 * (z.pow(2).mean() + model.relation.pow(2).mean())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(epoch, loss.item())
    model.eval()
    with torch.no_grad():
        z = model.encode(*graph)
        query = z[head[:512]] * model.relation[relation[:512]]
        scores = query @ z.T
        rank = (scores > scores.gather(1, tail[:512, None])).sum(1) + 1
    print("mean reciprocal rank", (1 / rank.float()).mean().item())


if __name__ == "__main__":
    main()
