"""Re-identification with batch-hard triplets: identity sampler, loader workers, pinned memory."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.models import regnet_y_800mf
from torchvision.transforms import v2


class People(Dataset):
    def __init__(self, identities, shots, height, width):
        self.shots, self.height, self.width = shots, height, width
        self.count = identities * shots
        self.transform = v2.Compose(
            [
                v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.2, 0.2),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.25] * 3),
                v2.RandomErasing(p=0.3),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        who = i // self.shots
        gen = torch.Generator().manual_seed(who)
        base = torch.randint(0, 256, (3, 8, 4), generator=gen, dtype=torch.uint8)
        image = v2.functional.resize(base, [self.height, self.width], antialias=True)
        return self.transform(image), who


class PKSampler(Sampler):
    """P identities with K pictures each."""

    def __init__(self, identities, shots, p, k, batches):
        self.identities, self.shots, self.p, self.k = identities, shots, p, k
        self.batches = batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = []
            for who in random.sample(range(self.identities), self.p):
                batch += [who * self.shots + s for s in random.sample(range(self.shots), self.k)]
            yield batch


def batch_hard(emb, labels, margin=0.3):
    dist = torch.cdist(emb, emb)
    same = labels[:, None] == labels[None, :]
    hardest_positive = dist.masked_fill(~same, -1.0).max(1)[0]
    hardest_negative = dist.masked_fill(same, float("inf")).min(1)[0]
    loss = F.relu(hardest_positive - hardest_negative + margin)
    return loss.mean(), (loss > 0).float().mean()


class Network(nn.Module):
    def __init__(self, dim, identities):
        super().__init__()
        self.trunk = regnet_y_800mf(weights=None)
        features = self.trunk.fc.in_features
        self.trunk.fc = nn.Identity()
        self.neck = nn.Sequential(nn.Linear(features, dim), nn.BatchNorm1d(dim))
        self.classifier = nn.Linear(dim, identities, bias=False)

    def forward(self, x):
        emb = self.neck(self.trunk(x))
        return emb, self.classifier(emb)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--p", type=int, default=24)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--height", type=int, default=256)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--identities", type=int, default=751)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shots = 8
    data = People(args.identities, shots, args.height, args.width)
    sampler = PKSampler(args.identities, shots, args.p, args.k, args.steps)
    loader = DataLoader(
        data,
        batch_sampler=sampler,
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=args.workers > 0,
    )
    model = Network(args.dim, args.identities).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3.5e-4, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5], gamma=0.1)
    model.train()
    for step, (images, who) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        who = who.to(device, non_blocking=True)
        emb, logits = model(images)
        triplet, active = batch_hard(emb, who)
        loss = triplet + F.cross_entropy(logits, who, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"{step}: loss {loss.item():.3f} triplet {triplet.item():.3f} active {active:.2f}")
    model.eval()
    gallery, names = [], []
    with torch.no_grad():
        for images, who in loader:
            gallery.append(F.normalize(model(images.to(device))[0], dim=1).cpu())
            names.append(who)
    gallery, names = torch.cat(gallery), torch.cat(names)
    nearest = (gallery @ gallery.T).fill_diagonal_(-1).argmax(1)
    print("rank-1", (names[nearest] == names).float().mean().item())


if __name__ == "__main__":
    main()
