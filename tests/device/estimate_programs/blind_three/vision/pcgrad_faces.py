"""Three tasks on one ShuffleNet: conflicting gradients are projected before they are added."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import shufflenet_v2_x1_5


class Faces(nn.Module):
    def __init__(self, width, attributes, landmarks):
        super().__init__()
        self.trunk = shufflenet_v2_x1_5(weights=None, num_classes=width)
        self.age = nn.Sequential(nn.ReLU(), nn.Linear(width, 1))
        self.attributes = nn.Sequential(nn.ReLU(), nn.Linear(width, attributes))
        self.landmarks = nn.Sequential(
            nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * landmarks)
        )

    def forward(self, x):
        h = self.trunk(x)
        return self.age(h).squeeze(1), self.attributes(h), self.landmarks(h)


def project(gradients):
    """Each task's gradient without its parts against the others (PCGrad)."""
    projected = [g.clone() for g in gradients]
    for i, g in enumerate(projected):
        others = [j for j in range(len(gradients)) if j != i]
        random.shuffle(others)
        for j in others:
            dot = torch.dot(g, gradients[j])
            if dot < 0:
                g.sub_(gradients[j] * (dot / gradients[j].square().sum()))
    return torch.stack(projected).sum(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--attributes", type=int, default=40)
    parser.add_argument("--landmarks", type=int, default=68)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Faces(args.width, args.attributes, args.landmarks).to(device)
    shared = list(model.trunk.parameters())
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        age = 80 * torch.rand(args.batch_size, device=device)
        attributes = torch.randint(0, 2, (args.batch_size, args.attributes), device=device)
        places = torch.rand(args.batch_size, 2 * args.landmarks, device=device)
        guess_age, guess_attributes, guess_places = model(images)
        losses = [
            F.smooth_l1_loss(guess_age, age / 80),
            F.binary_cross_entropy_with_logits(guess_attributes, attributes.float()),
            F.mse_loss(guess_places, places),
        ]
        optimizer.zero_grad()
        gradients = []
        for loss in losses:
            parts = torch.autograd.grad(loss, shared, retain_graph=True)
            gradients.append(torch.cat([part.flatten() for part in parts]))
        sum(losses).backward()
        flat = project(gradients)
        for p, g in zip(shared, flat.split([p.numel() for p in shared])):
            p.grad.copy_(g.view_as(p))
        optimizer.step()
        print(f"step {step}:", [round(loss.item(), 4) for loss in losses])


if __name__ == "__main__":
    main()
