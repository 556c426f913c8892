"""A U-Net for binary masks: dice and cross entropy, validation after each epoch, best kept."""

import argparse
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, channels=3, base=64, depth=4, classes=1):
        super().__init__()
        sizes = [base * 2**i for i in range(depth + 1)]
        self.first = DoubleConv(channels, base)
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(sizes, sizes[1:])
        )
        self.merge = nn.ModuleList(DoubleConv(b, a) for a, b in zip(sizes, sizes[1:]))
        self.last = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        x = self.first(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, merge, skip in zip(reversed(self.up), reversed(self.merge), reversed(skips)):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.last(x)


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    overlap = (p * target).sum(dim=(1, 2, 3))
    total = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return 1 - ((2 * overlap + eps) / (total + eps)).mean()


def batch(args, device):
    images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
    masks = (torch.rand(args.batch_size, 1, args.size, args.size, device=device) > 0.7).float()
    return images, masks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    net = UNet(base=args.base).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, weight_decay=1e-8)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", patience=1)
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(args.epochs):
            net.train()
            for step in range(args.steps):
                images, masks = batch(args, device)
                logits = net(images)
                loss = F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_value_(net.parameters(), 0.1)
                optimizer.step()
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
            net.eval()
            with torch.no_grad():
                images, masks = batch(args, device)
                valid = dice_loss(net(images), masks).item()
            scheduler.step(valid)
            if valid < best:
                best = valid
                torch.save(net.state_dict(), f"{folder}/best.pt")
            print(f"epoch {epoch} validation dice loss {valid:.4f}")


if __name__ == "__main__":
    main()
