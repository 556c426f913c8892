"""Point clouds with dynamic graphs (DGCNN): neighbours in feature space, edge convolutions."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def knn(x, k):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    distance = -xx - inner - xx.transpose(2, 1)
    return distance.topk(k=k, dim=-1)[1]


def graph_feature(x, k):
    batch, dims, points = x.size()
    idx = knn(x, k)
    base = torch.arange(0, batch, device=x.device).view(-1, 1, 1) * points
    idx = (idx + base).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch * points, -1)[idx, :].view(batch, points, k, dims)
    x = x.view(batch, points, 1, dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


def edge_conv(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(2 * c_in, c_out, kernel_size=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.LeakyReLU(negative_slope=0.2),
    )


class DGCNN(nn.Module):
    def __init__(self, classes, k, width=64, embedding=1024):
        super().__init__()
        self.k = k
        sizes = [3, width, width, 2 * width, 4 * width]
        self.convs = nn.ModuleList(edge_conv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.last = nn.Sequential(
            nn.Conv1d(sum(sizes[1:]), embedding, 1, bias=False),
            nn.BatchNorm1d(embedding),
            nn.LeakyReLU(0.2),
        )
        self.head = nn.Sequential(
            nn.Linear(2 * embedding, 512, bias=False),
            nn.BatchNorm1d(512),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.5),
            nn.Linear(512, classes),
        )

    def forward(self, x):
        levels = []
        for conv in self.convs:
            x = conv(graph_feature(x, self.k)).max(dim=-1)[0]
            levels.append(x)
        x = self.last(torch.cat(levels, dim=1))
        pooled = [F.adaptive_max_pool1d(x, 1).flatten(1), F.adaptive_avg_pool1d(x, 1).flatten(1)]
        return self.head(torch.cat(pooled, 1))


def shapes(batch, points, classes):
    """Points on ellipsoids whose axes depend on the class."""
    labels = torch.randint(0, classes, (batch,))
    p = F.normalize(torch.randn(batch, 3, points), dim=1)
    axes = torch.stack([1 + labels, torch.ones(batch), 1 / (1.0 + labels)], dim=1)
    p = p * axes[:, :, None] + 0.02 * torch.randn_like(p)
    angle = torch.rand(batch) * 6.283
    cos, sin, zero, one = angle.cos(), angle.sin(), torch.zeros(batch), torch.ones(batch)
    turn = torch.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], 1).view(batch, 3, 3)
    return turn @ p, labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DGCNN(args.classes, args.k, args.width).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps, eta_min=0.001)
    for step in range(args.steps):
        model.train()
        data, label = shapes(args.batch_size, args.points, args.classes)
        data, label = data.to(device), label.to(device)
        opt.zero_grad()
        logits = model(data)
        loss = F.cross_entropy(logits, label, label_smoothing=0.2)
        loss.backward()
        opt.step()
        scheduler.step()
        acc = (logits.max(dim=1)[1] == label).float().mean()
        print(f"Train {step}, loss: {loss.item():.6f}, train acc: {acc.item():.6f}")
    model.eval()
    with torch.no_grad():
        data, label = shapes(2 * args.batch_size, args.points, args.classes)
        guess = model(data.to(device)).max(dim=1)[1].cpu()
    print(f"Test acc: {(guess == label).float().mean().item():.6f}")


if __name__ == "__main__":
    main()
