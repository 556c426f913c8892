"""Trains an EfficientNet of timm in fp16 with a gradient scaler and RMSprop."""

import argparse
import tempfile
from pathlib import Path

import timm
import torch
import torch.nn.functional as F


def train(model, optimizer, scheduler, scaler, args):
    model.train()
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size).sub_(0.5).cuda()
        labels = torch.randint(0, args.classes, (args.batch_size,)).cuda()
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            logits = model(images)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print(f"[{step + 1}/{args.steps}] loss {loss.item():.4f} scale {scaler.get_scale():.0f}")


def evaluate(model, args):
    model.eval()
    right = 0
    with torch.no_grad(), torch.amp.autocast("cuda", dtype=torch.float16):
        for _ in range(2):
            images = torch.rand(args.batch_size, 3, args.size, args.size).sub_(0.5).cuda()
            labels = torch.randint(0, args.classes, (args.batch_size,)).cuda()
            right += (model(images).argmax(dim=1) == labels).sum().item()
    return right / (2 * args.batch_size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="efficientnet_b2")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.016)
    args = parser.parse_args()

    torch.manual_seed(99)
    model = timm.create_model(args.model, num_classes=args.classes, drop_rate=0.3).cuda()
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=args.lr, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=1e-5
    )
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    scaler = torch.amp.GradScaler("cuda")
    train(model, optimizer, scheduler, scaler, args)
    print(f"accuracy {evaluate(model, args):.4f}")
    with tempfile.TemporaryDirectory() as folder:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
        }
        torch.save(state, Path(folder) / "last.pth")


if __name__ == "__main__":
    main()
