"""Metric learning: a shared ResNet-34, semi-hard triplets, cosine retrieval at the end."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


class Embedder(nn.Module):
    def __init__(self, size=256):
        super().__init__()
        self.backbone = torchvision.models.resnet34(weights=None)
        self.backbone.fc = nn.Linear(self.backbone.fc.in_features, size)

    def forward(self, x):
        return F.normalize(self.backbone(x), dim=1)


class TripletBatches:
    """People, with a few pictures of each; a triplet is anchor, same person, other person."""

    def __init__(self, people, size, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.people, self.size = people, size

    def __call__(self, count):
        faces = torch.randn(self.people, 3, 1, 1, generator=self.generator)
        who = torch.randint(0, self.people, (count,), generator=self.generator)
        other = (
            who + torch.randint(1, self.people, (count,), generator=self.generator)
        ) % self.people

        def picture(person):
            noise = torch.randn(count, 3, self.size, self.size, generator=self.generator)
            return noise + faces[person]

        return picture(who), picture(who), picture(other)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--margin", type=float, default=0.3)
    args = parser.parse_args()

    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Embedder().to(device)
    criterion = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: 1 - F.cosine_similarity(a, b), margin=args.margin
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    batches = TripletBatches(100, args.size, 12)

    model.train()
    for step in range(args.steps):
        anchor, positive, negative = (x.to(device) for x in batches(args.batch_size))
        a, p, n = model(anchor), model(positive), model(negative)
        loss = criterion(a, p, n)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            right = (F.cosine_similarity(a, p) > F.cosine_similarity(a, n)).float().mean()
        print(f"step {step} loss {loss.item():.4f} triplets in order {right.item():.2f}")

    model.eval()
    with torch.no_grad():
        gallery = torch.cat([model(x.to(device)) for x in batches(args.batch_size)])
        query = model(batches(8)[0].to(device))
        best = (query @ gallery.t()).argmax(dim=1)
    print("nearest in the gallery:", best.tolist())


if __name__ == "__main__":
    main()
