"""Tabular rows as tokens: an FT-Transformer in fp16 on large batches, early stopping."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Tokens(nn.Module):
    def __init__(self, numbers, levels, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(numbers, width) * 0.02)
        self.bias = nn.Parameter(torch.randn(numbers + len(levels), width) * 0.02)
        self.table = nn.Embedding(sum(levels), width)
        starts = torch.tensor([0, *levels[:-1]]).cumsum(0)
        self.register_buffer("starts", starts)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, numbers, categories):
        x = torch.cat(
            [numbers.unsqueeze(-1) * self.weight, self.table(categories + self.starts)], 1
        )
        return torch.cat([self.summary.expand(len(x), -1, -1), x + self.bias], 1)


class FtTransformer(nn.Module):
    def __init__(self, numbers, levels, width, layers, heads, classes):
        super().__init__()
        self.tokens = Tokens(numbers, levels, width)
        self.attend = nn.ModuleList(
            [nn.MultiheadAttention(width, heads, 0.2, batch_first=True) for _ in range(layers)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])
        self.grow = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.shrink = nn.ModuleList([nn.Linear(3 * width // 2, width) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, numbers, categories):
        x = self.tokens(numbers, categories)
        last = len(self.attend) - 1
        for i, attend in enumerate(self.attend):
            h = self.norms[2 * i](x)
            query = h[:, :1] if i == last else h
            x = x[:, :1] if i == last else x
            x = x + attend(query, h, h, need_weights=False)[0]
            a, b = self.grow[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.shrink[i](F.dropout(a * F.relu(b), 0.1, self.training))
        return self.head(x[:, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--numbers", type=int, default=28)
    parser.add_argument("--categories", type=int, default=12)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    levels = [7 + 11 * i for i in range(args.categories)]
    rows = 3 * args.batch_size + args.batch_size // 3
    numbers = torch.randn(rows, args.numbers, device=device)
    categories = torch.stack([torch.randint(n, (rows,)) for n in levels], 1).to(device)
    labels = (numbers[:, 0] + 0.3 * torch.randn(rows, device=device) > 0).long()
    model = FtTransformer(args.numbers, levels, args.width, args.layers, 8, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5, foreach=False)
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    best, patience = float("inf"), 2
    held = slice(3 * args.batch_size, None)
    for epoch in range(args.epochs):
        model.train()
        for part in torch.randperm(3 * args.batch_size, device=device).split(args.batch_size):
            with torch.autocast(device.type, half):
                loss = F.cross_entropy(model(numbers[part], categories[part]), labels[part])
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        with torch.no_grad(), torch.autocast(device.type, half):
            score = F.cross_entropy(model(numbers[held], categories[held]), labels[held]).item()
        print(f"epoch {epoch}: held out {score:.4f}")
        if score < best:
            best, kept = score, {k: v.clone() for k, v in model.state_dict().items()}
        else:
            patience -= 1
            if patience == 0:
                break
    model.load_state_dict(kept)
    print("best", best)


if __name__ == "__main__":
    main()
