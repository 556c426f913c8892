"""FCOS with a ResNet-50 pyramid: bf16 autocast, accumulation, clipping."""

import argparse

import torch
import torchvision


def make_batch(args):
    images = torch.rand(args.batch_size, 3, args.size, args.size).cuda()
    targets = []
    for _ in range(args.batch_size):
        count = int(torch.randint(2, 12, (1,)))
        corner = torch.rand(count, 2) * args.size * 0.7
        side = torch.rand(count, 2) * args.size * 0.25 + 6
        boxes = torch.cat([corner, corner + side], 1).cuda()
        targets.append({"boxes": boxes, "labels": torch.randint(0, 15, (count,)).cuda()})
    return list(images), targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = torchvision.models.detection.fcos_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=15,
        min_size=args.size,
        max_size=args.size,
        trainable_backbone_layers=5,
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    model.train()
    for update in range(args.updates):
        for _ in range(2):
            images, targets = make_batch(args)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                losses = model(images, targets)
                loss = sum(losses.values()) / 2
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        print(update, loss.item() * 2)


if __name__ == "__main__":
    main()
