"""A memory-efficient DenseNet on large X-rays: uneven classes, worker processes."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision.models import densenet121


class Xrays(Dataset):
    def __init__(self, n, size, findings):
        self.size = size
        self.labels = (torch.rand(n, findings) < torch.linspace(0.05, 0.4, findings)).float()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        return torch.rand(1, self.size, self.size, generator=gen), self.labels[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=448)
    parser.add_argument("--findings", type=int, default=14)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Xrays(args.steps * args.batch_size, args.size, args.findings)
    weights = 1 + data.labels.sum(1)
    loader = DataLoader(
        data,
        args.batch_size,
        sampler=WeightedRandomSampler(weights.tolist(), len(data)),
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
    )
    model = densenet121(weights=None, num_classes=args.findings, memory_efficient=True)
    model.features.conv0 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
    model = model.to(device)
    positive = data.labels.sum(0).clamp(min=1)
    criterion = nn.BCEWithLogitsLoss(pos_weight=((len(data) - positive) / positive).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    scores, truths = [], []
    with torch.no_grad():
        for images, labels in loader:
            scores.append(model(images.to(device)).sigmoid())
            truths.append(labels.to(device))
    scores, truths = torch.cat(scores), torch.cat(truths)
    thresholds = torch.linspace(0.1, 0.9, 17, device=device)
    guesses = scores[None] > thresholds[:, None, None]
    both = (guesses & truths.bool()[None]).sum(1)
    f1 = 2 * both / (guesses.sum(1) + truths.sum(0)).clamp(min=1)
    print("best thresholds", thresholds[f1.argmax(0)].tolist())


if __name__ == "__main__":
    main()
