"""Anchor-free detection with torchvision's FCOS on drawn rectangles; bf16 and then test images."""

import argparse
import random

import torch
from torchvision.models.detection import fcos_resnet50_fpn
from torchvision.ops import box_iou


def draw(rng, height, width, most):
    """An image with rectangles of flat colour, their boxes and classes."""
    image = 0.2 * torch.rand(3, height, width)
    boxes, labels = [], []
    for _ in range(rng.randint(1, most)):
        w, h = rng.randint(width // 10, width // 3), rng.randint(height // 10, height // 3)
        x, y = rng.randint(0, width - w - 1), rng.randint(0, height - h - 1)
        label = rng.randint(1, 4)
        image[(label - 1) % 3, y : y + h, x : x + w] += 0.2 * label
        boxes.append([x, y, x + w, y + h])
        labels.append(label)
    return image, {"boxes": torch.tensor(boxes).float(), "labels": torch.tensor(labels)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--min-size", type=int, default=512)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = fcos_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=5,
        trainable_backbone_layers=5,
        min_size=args.min_size,
        max_size=2 * args.min_size,
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4)
    for step in range(args.steps):
        scenes = [draw(rng, args.height, args.width, args.most) for _ in range(args.batch_size)]
        images = [image.to(device) for image, _ in scenes]
        targets = [{k: v.to(device) for k, v in target.items()} for _, target in scenes]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            losses = model(images, targets)
            loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        print(f"step {step}:", {name: round(value.item(), 3) for name, value in losses.items()})

    model.eval()
    with torch.no_grad():
        found = model(images[:4])
    for result, target in zip(found, targets):
        overlap = box_iou(target["boxes"], result["boxes"])
        best = overlap.amax(1).mean().item() if overlap.numel() else 0.0
        print(f"{len(result['boxes'])} boxes, mean best overlap {best:.3f}")


if __name__ == "__main__":
    main()
