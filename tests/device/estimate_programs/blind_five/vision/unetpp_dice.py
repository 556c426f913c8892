"""UNet++ with a timm encoder for lesions: deep supervision, Dice and cross-entropy, fp16 scaler."""

import argparse

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F


def double(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(True),
    )


class UNetPlusPlus(nn.Module):
    def __init__(self, encoder, widths=(32, 64, 128, 256)):
        super().__init__()
        self.encoder = timm.create_model(encoder, features_only=True, out_indices=(0, 1, 2, 3))
        channels = self.encoder.feature_info.channels()
        self.side = nn.ModuleList(nn.Conv2d(c, w, 1) for c, w in zip(channels, widths))
        self.nodes = nn.ModuleDict()
        for j in range(1, 4):
            for i in range(4 - j):
                self.nodes[f"{i}{j}"] = double(widths[i] * j + widths[i + 1], widths[i])
        self.heads = nn.ModuleList(nn.Conv2d(widths[0], 1, 1) for _ in range(3))

    def forward(self, x):
        grid = {(i, 0): s(f) for i, (s, f) in enumerate(zip(self.side, self.encoder(x)))}
        for j in range(1, 4):
            for i in range(4 - j):
                below = grid[i + 1, j - 1]
                up = F.interpolate(below, scale_factor=2, mode="bilinear", align_corners=False)
                row = [grid[i, k] for k in range(j)]
                grid[i, j] = self.nodes[f"{i}{j}"](torch.cat([*row, up], dim=1))
        outputs = [head(grid[0, j + 1]) for j, head in enumerate(self.heads)]
        return [F.interpolate(o, size=x.shape[-2:], mode="bilinear") for o in outputs]


def dice_loss(logits, target):
    p = logits.float().sigmoid()
    both = (p * target).sum((1, 2, 3))
    return 1 - ((2 * both + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="resnet34")
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(23)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = UNetPlusPlus(args.encoder).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=device == "cuda")
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        masks = (torch.rand(args.batch_size, 1, args.size, args.size, device=device) > 0.7).float()
        with torch.autocast(device, torch.float16 if device == "cuda" else torch.bfloat16):
            outputs = model(images)
            loss = sum(
                dice_loss(o, masks) + F.binary_cross_entropy_with_logits(o, masks) for o in outputs
            ) / len(outputs)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            guess = outputs[-1] > 0
            iou = (guess & (masks > 0)).sum() / (guess | (masks > 0)).sum()
        print(f"{step}: loss {loss.item():.4f}, iou {iou.item():.3f}")


if __name__ == "__main__":
    main()
