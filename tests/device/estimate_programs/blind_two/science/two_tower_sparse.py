"""Candidate retrieval with two towers: millions of sparse embedding rows, SparseAdam, top items."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class UserTower(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.history = nn.EmbeddingBag(items, dim, mode="mean", sparse=True, padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, user, history):
        x = torch.cat([self.user(user), self.history(history)], dim=1)
        return F.normalize(self.mlp(x), dim=1)


class ItemTower(nn.Module):
    def __init__(self, items, categories, dim):
        super().__init__()
        self.item = nn.Embedding(items, dim, sparse=True)
        self.category = nn.Embedding(categories, dim, sparse=True)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, item, category):
        x = torch.cat([self.item(item), self.category(category)], dim=1)
        return F.normalize(self.mlp(x), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--categories", type=int, default=500)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--history", type=int, default=30)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    users = UserTower(args.users, args.items, args.dim).to(device)
    items = ItemTower(args.items, args.categories, args.dim).to(device)
    category_of = torch.randint(0, args.categories, (args.items,), device=device)

    sparse, dense = [], []
    for tower in (users, items):
        for name, p in tower.named_parameters():
            (dense if name.startswith("mlp") else sparse).append(p)
    sparse_opt = torch.optim.SparseAdam(sparse, lr=1e-3)
    dense_opt = torch.optim.Adagrad(dense, lr=0.01)
    # How often an item was seen corrects the in-batch softmax.
    seen = torch.ones(args.items, device=device)

    for step in range(args.steps):
        user = torch.randint(0, args.users, (args.batch_size,)).to(device)
        item = (torch.rand(args.batch_size) ** 2 * (args.items - 1)).long().add(1).to(device)
        history = torch.randint(0, args.items, (args.batch_size, args.history)).to(device)
        seen.scatter_add_(0, item, torch.ones_like(item, dtype=torch.float))
        u = users(user, history)
        v = items(item, category_of[item])
        logits = u @ v.t() / 0.05 - torch.log(seen[item] / seen.sum())
        same = item[:, None] == item[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, -1e9)
        target = torch.arange(args.batch_size, device=device)
        loss = F.cross_entropy(logits, target)
        sparse_opt.zero_grad()
        dense_opt.zero_grad()
        loss.backward()
        sparse_opt.step()
        dense_opt.step()
        recall = (logits.topk(10, dim=1)[1] == target[:, None]).any(1).float().mean()
        print(f"step {step} loss {loss.item():.4f} recall@10 in batch {recall.item():.4f}")

    users.eval()
    items.eval()
    with torch.no_grad():
        table = torch.cat(
            [
                items(part, category_of[part])
                for part in torch.arange(args.items, device=device).split(65536)
            ]
        )
        u = users(user[:256], history[:256])
        best = []
        for part in u.split(64):
            scores = part @ table.t()
            best.append(scores.topk(min(100, args.items), dim=1).indices)
        best = torch.cat(best)
    print("hit rate", (best == item[:256, None]).any(1).float().mean().item())


if __name__ == "__main__":
    main()
