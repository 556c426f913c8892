"""DINO: a ViT student sees many small crops, the teacher is its average and sees two large ones."""

import argparse
import copy
import math

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


class Head(nn.Module):
    def __init__(self, inputs, outputs, hidden, bottleneck=256):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(inputs, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, bottleneck),
        )
        self.last = weight_norm(nn.Linear(bottleneck, outputs, bias=False))
        self.last.parametrizations.weight.original0.data.fill_(1)

    def forward(self, x):
        return self.last(F.normalize(self.mlp(x), dim=-1))


class Tower(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.vit = timm.create_model(
            "vit_small_patch16_224",
            pretrained=False,
            num_classes=0,
            img_size=args.large,
            dynamic_img_size=True,
            embed_dim=args.width,
            depth=args.depth,
            num_heads=args.width // 64,
            drop_path_rate=0.1,
        )
        self.head = Head(args.width, args.prototypes, 2 * args.width)

    def forward(self, crops):
        groups = {}
        for crop in crops:
            groups.setdefault(crop.shape[-1], []).append(crop)
        return self.head(torch.cat([self.vit(torch.cat(group)) for group in groups.values()]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--large", type=int, default=224)
    parser.add_argument("--small", type=int, default=96)
    parser.add_argument("--small-crops", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--prototypes", type=int, default=32768)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student = Tower(args).to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    centre = torch.zeros(1, args.prototypes, device=device)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, weight_decay=0.04)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * (1 + math.cos(math.pi * step / 100)) / 2
        B = args.batch_size
        crops = [torch.randn(B, 3, args.large, args.large, device=device) for _ in range(2)]
        crops += [
            torch.randn(B, 3, args.small, args.small, device=device)
            for _ in range(args.small_crops)
        ]
        with torch.autocast(device.type, enabled=device.type == "cuda"):
            with torch.no_grad():
                seen = teacher(crops[:2])
            out = student(crops)
        targets = F.softmax((seen.float() - centre) / 0.04, dim=-1).chunk(2)
        guesses = F.log_softmax(out.float() / 0.1, dim=-1).chunk(len(crops))
        terms = [
            -(t * g).sum(-1).mean()
            for i, t in enumerate(targets)
            for j, g in enumerate(guesses)
            if i != j
        ]
        loss = torch.stack(terms).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(student.parameters(), 3.0)
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            centre = centre * 0.9 + seen.float().mean(0, keepdim=True) * 0.1
            torch._foreach_lerp_(
                [p.data for p in teacher.parameters()],
                [p.data for p in student.parameters()],
                0.004,
            )
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
