"""A large volume is segmented in overlapping windows, weighted by a Gaussian."""

import argparse
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
            nn.Conv3d(outputs, outputs, 3, padding=1),
            nn.InstanceNorm3d(outputs, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        )

    def forward(self, x):
        return self.body(x)


class Network(nn.Module):
    def __init__(self, base, classes, levels=4):
        super().__init__()
        widths = [base * 2**i for i in range(levels)]
        self.down = nn.ModuleList([Stage(a, b) for a, b in zip([1, *widths], widths)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:])]
        )
        self.join = nn.ModuleList([Stage(2 * a, a) for a in widths[:-1]])
        self.head = nn.Conv3d(base, classes, 1)

    def forward(self, x):
        kept = []
        for stage in self.down:
            x = stage(F.max_pool3d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up[::-1], self.join[::-1]):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


def bell(size, device):
    line = torch.arange(size, device=device) - (size - 1) / 2
    one = torch.exp(-0.5 * (line / (size / 8)) ** 2)
    cube = one[:, None, None] * one[:, None] * one
    return cube.clamp(min=float(cube[cube > 0].min()))


def starts(length, window):
    count = max(1, -(-(length - window) * 2 // window) + 1)
    return [round(i * (length - window) / max(1, count - 1)) for i in range(count)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--volume", type=int, nargs=3, default=[224, 256, 256])
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--base", type=int, default=24)
    parser.add_argument("--classes", type=int, default=14)
    args = parser.parse_args()
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Network(args.base, args.classes).to(device).eval()
    volume = torch.randn(1, 1, *args.volume)
    weight = bell(args.window, device).half()
    total = torch.zeros(args.classes, *args.volume, dtype=torch.half, device=device)
    count = torch.zeros(args.volume, dtype=torch.half, device=device)
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    with torch.inference_mode(), torch.autocast(device.type, half):
        for z, y, x in itertools.product(*(starts(n, args.window) for n in args.volume)):
            box = tuple(slice(i, i + args.window) for i in (z, y, x))
            tile = volume[(..., *box)].to(device, non_blocking=True)
            logits = model(tile)[0]
            logits += model(tile.flip(2))[0].flip(1)
            total[(slice(None), *box)] += logits.half() * weight
            count[box] += weight
        total /= count
        labels = total.argmax(0).to(torch.uint8).cpu()
    print("voxels by class", torch.bincount(labels.flatten(), minlength=args.classes).tolist())


if __name__ == "__main__":
    main()
