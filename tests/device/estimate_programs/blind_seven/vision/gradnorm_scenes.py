"""Indoor scenes with three tasks on one ResNet-34: classes, depth and surface normals.
GradNorm learns the weights of the tasks from the norms of their gradients at the shared layer.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet34
from torchvision.models.feature_extraction import create_feature_extractor


class Head(nn.Module):
    """Walks from the coarsest features to the finest, adding the skips on the way."""

    def __init__(self, channels, width, out):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, width, 1) for c in channels)
        self.smooth = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            )
            for _ in channels
        )
        self.out = nn.Conv2d(width, out, 1)

    def forward(self, features, size):
        x = None
        for feature, lateral, smooth in zip(
            reversed(features), reversed(self.lateral), reversed(self.smooth)
        ):
            y = lateral(feature)
            if x is not None:
                y = y + F.interpolate(x, size=y.shape[-2:], mode="bilinear", align_corners=False)
            x = smooth(y)
        return F.interpolate(self.out(x), size=size, mode="bilinear", align_corners=False)


class SceneNet(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        nodes = {"layer1": "c2", "layer2": "c3", "layer3": "c4", "layer4": "c5"}
        self.trunk = create_feature_extractor(resnet34(weights=None), return_nodes=nodes)
        self.shared = nn.Conv2d(512, 512, 3, padding=1)
        channels = [64, 128, 256, 512]
        self.heads = nn.ModuleDict(
            {
                "classes": Head(channels, width, classes),
                "depth": Head(channels, width, 1),
                "normals": Head(channels, width, 3),
            }
        )

    def forward(self, images):
        features = list(self.trunk(images).values())
        features[-1] = F.relu(self.shared(features[-1]))
        return {name: head(features, images.shape[-2:]) for name, head in self.heads.items()}


def task_losses(outputs, labels, depth, normals):
    cosine = F.cosine_similarity(outputs["normals"], normals, dim=1)
    return torch.stack(
        [
            F.cross_entropy(outputs["classes"], labels),
            F.l1_loss(outputs["depth"], depth),
            (1 - cosine).mean(),
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--height", type=int, default=384)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--alpha", type=float, default=1.5)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    model = SceneNet(args.classes, args.channels).to(device).train()
    weights = nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    weight_optimizer = torch.optim.Adam([weights], lr=0.01)
    first = None

    for step in range(args.steps):
        size = (args.batch_size, 3, args.height, args.width)
        images = torch.randn(size, device=device)
        labels = torch.randint(
            0, args.classes, (args.batch_size, args.height, args.width), device=device
        )
        depth = images.mean(dim=1, keepdim=True).abs() + 1
        normals = F.normalize(images, dim=1)

        losses = task_losses(model(images), labels, depth, normals)
        if first is None:
            first = losses.detach()
        total = (weights.detach() * losses).sum()
        optimizer.zero_grad()
        total.backward(retain_graph=True)

        norms = []
        for weight, loss in zip(weights, losses):
            (grad,) = torch.autograd.grad(loss, model.shared.weight, retain_graph=True)
            norms.append(weight * grad.norm())
        norms = torch.stack(norms)
        rate = losses.detach() / first
        rate = rate / rate.mean()
        target = (norms.mean() * rate**args.alpha).detach()
        weight_loss = (norms - target).abs().sum()
        weight_optimizer.zero_grad()
        weight_loss.backward()

        optimizer.step()
        weight_optimizer.step()
        with torch.no_grad():
            weights.clamp_(min=0.05).mul_(3 / weights.sum())
        shares = ", ".join(f"{w:.3f}" for w in weights.tolist())
        print(f"step {step} loss {total.item():.4f} weights {shares}")


if __name__ == "__main__":
    main()
