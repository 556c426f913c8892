"""MoCo: a momentum encoder, a queue of 65,536 keys, crops made on the GPU."""

import argparse
import copy

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.transforms import v2


class Moco(nn.Module):
    def __init__(self, name, dim, queue, momentum=0.99, temperature=0.2):
        super().__init__()
        backbone = timm.create_model(name, pretrained=False, num_classes=0)
        features = backbone.num_features
        head = nn.Sequential(
            nn.Linear(features, features), nn.ReLU(inplace=True), nn.Linear(features, dim)
        )
        self.query = nn.Sequential(backbone, head)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue), dim=0))
        self.place = 0
        self.momentum, self.temperature = momentum, temperature

    @torch.no_grad()
    def keys(self, images):
        for slow, fast in zip(self.key.parameters(), self.query.parameters()):
            slow.lerp_(fast, 1 - self.momentum)
        order = torch.randperm(len(images), device=images.device)
        keys = F.normalize(self.key(images[order]), dim=1)
        return keys[order.argsort()]

    def forward(self, one, two):
        q = F.normalize(self.query(one), dim=1)
        k = self.keys(two)
        right = (q * k).sum(1, keepdim=True)
        logits = torch.cat([right, q @ self.queue.clone().detach()], dim=1) / self.temperature
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))

    @torch.no_grad()
    def enqueue(self, keys):
        end = self.place + len(keys)
        self.queue[:, self.place : end] = keys.t()
        self.place = end % self.queue.size(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--model", default="seresnext50_32x4d")
    parser.add_argument("--queue", type=int, default=65536)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Moco(args.model, args.dim, args.queue).to(device)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    augment = v2.Compose(
        [
            v2.RandomResizedCrop(args.size, scale=(0.2, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )
    full = args.size * 5 // 4
    for step in range(args.steps):
        images = torch.randint(0, 256, (args.batch_size, 3, full, full), dtype=torch.uint8)
        images = images.to(device).float().div_(255)
        loss = model(augment(images), augment(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
