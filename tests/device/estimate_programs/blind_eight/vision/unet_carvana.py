"""U-Net for masks of cars: fp16 autocast, RMSprop, dice and cross-entropy, validation rounds."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, random_split


class DoubleConv(nn.Sequential):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        mid_channels = mid_channels or out_channels
        super().__init__(
            nn.Conv2d(in_channels, mid_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, classes, base=64):
        super().__init__()
        widths = [base, base * 2, base * 4, base * 8, base * 8]
        self.inc = DoubleConv(3, base)
        self.down = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b)) for a, b in zip(widths, widths[1:])
        )
        self.up = nn.ModuleList(
            Up(2 * b, a) for a, b in zip([base, base, base * 2, base * 4], widths[:4])
        )
        self.outc = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        kept = [self.inc(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up in reversed(self.up):
            x = up(x, kept.pop())
        return self.outc(x)


class Cars(Dataset):
    def __init__(self, count, height, width):
        self.count, self.height, self.width = count, height, width

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.height, self.width, generator=generator)
        return {"image": image, "mask": (image.mean(0) > 0.5).long()}


def dice_loss(probabilities, target, epsilon=1e-6):
    both = 2 * (probabilities * target).sum(dim=(-1, -2))
    sets = probabilities.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    return 1 - ((both + epsilon) / (sets + epsilon)).mean()


@torch.inference_mode()
def evaluate(net, loader, device):
    net.eval()
    score = 0.0
    for batch in loader:
        with torch.autocast("cuda"):
            guess = net(batch["image"].to(device)).argmax(1)
        score += 1 - dice_loss(guess.float(), batch["mask"].to(device).float()).item()
    net.train()
    return score / max(len(loader), 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=320)
    parser.add_argument("--width", type=int, default=479)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    data = Cars(args.batch_size * (args.steps + 1), args.height, args.width)
    held_out = args.batch_size
    generator = torch.Generator().manual_seed(0)
    train_set, val_set = random_split(data, [len(data) - held_out, held_out], generator=generator)
    train_loader = DataLoader(
        train_set, args.batch_size, shuffle=True, num_workers=2, pin_memory=True
    )
    val_loader = DataLoader(val_set, args.batch_size, drop_last=True)
    net = UNet(2, args.base).to(device, memory_format=torch.channels_last)
    optimizer = optim.RMSprop(
        net.parameters(), lr=1e-5, weight_decay=1e-8, momentum=0.999, foreach=True
    )
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss()
    for step, batch in enumerate(train_loader):
        images = batch["image"].to(device, memory_format=torch.channels_last)
        masks = batch["mask"].to(device)
        with torch.autocast("cuda"):
            logits = net(images)
            loss = criterion(logits, masks)
            one_hot = F.one_hot(masks, 2).permute(0, 3, 1, 2).float()
            loss += dice_loss(F.softmax(logits, dim=1).float(), one_hot)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.4f}")
        if step % 2 == 1:
            print(f"validation dice {evaluate(net, val_loader, device):.4f}")


if __name__ == "__main__":
    main()
