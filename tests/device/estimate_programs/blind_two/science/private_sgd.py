"""Differentially private SGD with torch.func: per-sample gradients by vmap, clipped and noised."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value, vmap


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.conv3 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.norm3 = nn.GroupNorm(4, 2 * width)
        self.fc1 = nn.Linear(2 * width * 16, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = F.avg_pool2d(F.relu(self.norm3(self.conv3(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=384)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.8)
    parser.add_argument("--lr", type=float, default=0.25)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(args.width, args.classes).to(device)
    params = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())
    momentum = {name: torch.zeros_like(p) for name, p in params.items()}
    print("parameters:", sum(p.numel() for p in params.values()))

    def loss_of_one(params, buffers, image, label):
        logits = functional_call(model, (params, buffers), (image.unsqueeze(0),))
        return F.cross_entropy(logits, label.unsqueeze(0))

    per_sample = vmap(grad_and_value(loss_of_one), in_dims=(None, None, 0, 0))

    data = torch.randn(args.steps * args.batch_size, 3, 32, 32)
    labels = torch.randint(0, args.classes, (len(data),))
    for step in range(args.steps):
        # Poisson sampling: the size of a batch varies.
        chosen = torch.rand(len(data)) < args.batch_size / len(data)
        images, targets = data[chosen].to(device), labels[chosen].to(device)
        grads, losses = per_sample(params, buffers, images, targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factors = (args.clip / (norms + 1e-6)).clamp(max=1.0)
        for name, g in grads.items():
            total = torch.einsum("n,n...->...", factors, g)
            total += args.noise * args.clip * torch.randn_like(total)
            momentum[name].mul_(0.9).add_(total / args.batch_size)
            params[name] = params[name] - args.lr * momentum[name]
        rate = args.batch_size / len(data)
        epsilon = rate * math.sqrt(2 * (step + 1) * math.log(1e5)) / args.noise
        print(
            f"step {step}: {len(images)} samples, loss {losses.mean().item():.4f}, "
            f"clipped {(norms > args.clip).float().mean().item():.2f}, epsilon about {epsilon:.2f}"
        )

    with torch.no_grad():
        model.load_state_dict(params, strict=False)
        guess = torch.cat([model(part.to(device)).argmax(1).cpu() for part in data.split(512)])
    print(f"accuracy {(guess == labels).float().mean().item():.4f}")


if __name__ == "__main__":
    main()
