"""A 3-D U-Net for organs in CT: instance norms, deep supervision, inference in tiles."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_block(c_in, c_out, stride=1):
    return nn.Sequential(
        nn.Conv3d(c_in, c_out, 3, stride=stride, padding=1, bias=False),
        nn.InstanceNorm3d(c_out, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv3d(c_out, c_out, 3, padding=1, bias=False),
        nn.InstanceNorm3d(c_out, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class UNet3D(nn.Module):
    def __init__(self, c_in, classes, base, depth=4):
        super().__init__()
        sizes = [min(base * 2**i, 320) for i in range(depth)]
        self.encoders = nn.ModuleList()
        previous = c_in
        for i, c in enumerate(sizes):
            self.encoders.append(conv_block(previous, c, stride=1 if i == 0 else 2))
            previous = c
        self.ups, self.decoders, self.heads = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for c in reversed(sizes[:-1]):
            self.ups.append(nn.ConvTranspose3d(previous, c, 2, stride=2))
            self.decoders.append(conv_block(2 * c, c))
            self.heads.append(nn.Conv3d(c, classes, 1))
            previous = c

    def forward(self, x):
        skips = []
        for encoder in self.encoders:
            x = encoder(x)
            skips.append(x)
        skips.pop()
        outputs = []
        for up, decoder, head in zip(self.ups, self.decoders, self.heads):
            x = decoder(torch.cat((up(x), skips.pop()), dim=1))
            outputs.append(head(x))
        return outputs[::-1] if self.training else outputs[-1]


def dice_ce(logits, target, classes):
    ce = F.cross_entropy(logits, target)
    probs = logits.softmax(1)
    onehot = F.one_hot(target, classes).permute(0, 4, 1, 2, 3).float()
    inter = (probs * onehot).sum((2, 3, 4))
    dice = (2 * inter + 1e-5) / (probs.sum((2, 3, 4)) + onehot.sum((2, 3, 4)) + 1e-5)
    return ce + 1 - dice[:, 1:].mean()


def phantom(batch, size, classes):
    """Balls of different density in noise."""
    grid = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, size)] * 3, indexing="ij"))
    label = torch.zeros(batch, size, size, size, dtype=torch.long)
    for b in range(batch):
        for c in range(1, classes):
            centre = torch.rand(3, 1, 1, 1) - 0.5
            label[b][((grid - centre) ** 2).sum(0) < 0.1] = c
    return label.unsqueeze(1).float() + 0.3 * torch.randn(batch, 1, size, size, size), label


@torch.no_grad()
def sliding_window(model, volume, tile, classes, overlap=0.5):
    model.eval()
    size = volume.shape[-1]
    stride = int(tile * (1 - overlap))
    total = torch.zeros(1, classes, size, size, size, device=volume.device)
    count = torch.zeros(1, 1, size, size, size, device=volume.device)
    starts = range(0, size - tile + 1, stride)
    for z in starts:
        for y in starts:
            for x in starts:
                box = (..., slice(z, z + tile), slice(y, y + tile), slice(x, x + tile))
                total[box] += model(volume[box]).softmax(1)
                count[box] += 1
    model.train()
    return (total / count).argmax(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--patch", type=int, default=80)
    parser.add_argument("--volume", type=int, default=160)
    parser.add_argument("--base", type=int, default=28)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = UNet3D(1, args.classes, args.base).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.99, nesterov=True)
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1 - step / args.steps) ** 0.9
        image, label = phantom(args.batch_size, args.patch, args.classes)
        image, label = image.to(device), label.to(device)
        loss = 0
        for i, out in enumerate(model(image)):
            small = F.interpolate(label[:, None].float(), size=out.shape[2:], mode="nearest")
            loss = loss + 0.5**i * dice_ce(out, small[:, 0].long(), args.classes)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 12)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")

    image, label = phantom(1, args.volume, args.classes)
    guess = sliding_window(model, image.to(device), args.patch, args.classes)
    print("voxel accuracy", (guess.cpu() == label).float().mean().item())


if __name__ == "__main__":
    main()
