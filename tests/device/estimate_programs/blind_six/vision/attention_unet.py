"""An attention U-Net with deep supervision: bf16 autocast, Dice and cross entropy, sliding
evaluation.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def double(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.InstanceNorm2d(c_out, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
        nn.InstanceNorm2d(c_out, affine=True),
        nn.LeakyReLU(0.01, inplace=True),
    )


class Gate(nn.Module):
    def __init__(self, c, c_low):
        super().__init__()
        self.a = nn.Conv2d(c, c // 2, 1)
        self.b = nn.Conv2d(c_low, c // 2, 1)
        self.mix = nn.Conv2d(c // 2, 1, 1)

    def forward(self, x, low):
        low = F.interpolate(self.b(low), size=x.shape[2:], mode="bilinear", align_corners=False)
        return x * torch.sigmoid(self.mix(F.relu(self.a(x) + low)))


class AttentionUNet(nn.Module):
    def __init__(self, base, depth, classes):
        super().__init__()
        sizes = [base * 2**i for i in range(depth)]
        self.first = double(1, sizes[0])
        self.down = nn.ModuleList(double(a, b) for a, b in zip(sizes, sizes[1:]))
        pairs = list(zip(sizes, sizes[1:]))[::-1]
        self.gates = nn.ModuleList(Gate(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.fuse = nn.ModuleList(double(2 * a, a) for a, b in pairs)
        self.heads = nn.ModuleList(nn.Conv2d(a, classes, 1) for a, b in pairs)

    def forward(self, x):
        skips = [self.first(x)]
        for stage in self.down:
            skips.append(stage(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        outputs = []
        for gate, up, fuse, head in zip(self.gates, self.up, self.fuse, self.heads):
            skip = gate(skips.pop(), x)
            x = fuse(torch.cat([skip, up(x)], dim=1))
            outputs.append(head(x))
        return outputs[::-1] if self.training else outputs[-1]


def loss_of(logits, labels):
    logits = logits.float()
    p = logits.softmax(1)
    one_hot = F.one_hot(labels, p.shape[1]).permute(0, 3, 1, 2).float()
    overlap = (p * one_hot).sum((0, 2, 3))
    dice = (2 * overlap + 1) / (p.sum((0, 2, 3)) + one_hot.sum((0, 2, 3)) + 1)
    return F.cross_entropy(logits, labels) + 1 - dice.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--base", type=int, default=32)
    parser.add_argument("--classes", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = AttentionUNet(args.base, 5, args.classes).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.99, nesterov=True)
    for step in range(4):
        model.train()
        x = torch.randn(args.batch_size, 1, args.size, args.size, device="cuda")
        y = torch.randint(args.classes, (args.batch_size, args.size, args.size), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            outputs = model(x)
        loss = 0
        for level, out in enumerate(outputs):
            small = F.interpolate(y[:, None].float(), scale_factor=0.5**level)[:, 0].long()
            loss = loss + 0.5**level * loss_of(out, small)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 12)
        optimizer.step()
        print(step, loss.item())
    model.eval()
    big = torch.randn(1, 1, 3 * args.size, 3 * args.size, device="cuda")
    votes = torch.zeros(1, args.classes, *big.shape[2:], device="cuda")
    with torch.inference_mode():
        for top in range(0, 2 * args.size + 1, args.size // 2):
            for left in range(0, 2 * args.size + 1, args.size // 2):
                tile = big[:, :, top : top + args.size, left : left + args.size]
                votes[:, :, top : top + args.size, left : left + args.size] += model(tile)
    print(votes.argmax(1).float().mean().item())


if __name__ == "__main__":
    main()
