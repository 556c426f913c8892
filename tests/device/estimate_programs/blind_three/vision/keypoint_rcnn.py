"""Stick figures and their joints with torchvision's Keypoint R-CNN, over two batches a step."""

import argparse
import random

import torch
from torchvision.models.detection import keypointrcnn_resnet50_fpn

JOINTS = 8


def figure(rng, size):
    """Joints around a middle, and the box that holds them all."""
    x, y = rng.uniform(0.25, 0.75) * size, rng.uniform(0.25, 0.75) * size
    reach = rng.uniform(0.08, 0.2) * size
    joints = [
        [x + rng.uniform(-reach, reach), y + rng.uniform(-reach, reach), float(rng.random() > 0.1)]
        for _ in range(JOINTS)
    ]
    xs, ys = [j[0] for j in joints], [j[1] for j in joints]
    return joints, [min(xs) - 3, min(ys) - 3, max(xs) + 3, max(ys) + 3]


def scene(rng, size):
    image = 0.1 * torch.randn(3, size, size).abs()
    people = [figure(rng, size) for _ in range(rng.randint(1, 5))]
    for joints, _ in people:
        for i, (x, y, seen) in enumerate(joints):
            if seen:
                image[i % 3, int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3] = 1.0
    return image, {
        "boxes": torch.tensor([box for _, box in people]),
        "labels": torch.ones(len(people), dtype=torch.int64),
        "keypoints": torch.tensor([joints for joints, _ in people]),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = keypointrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=2,
        num_keypoints=JOINTS,
        trainable_backbone_layers=5,
        min_size=(args.size,),
        max_size=args.size,
        rpn_pre_nms_top_n_train=1000,
        rpn_post_nms_top_n_train=500,
    ).to(device)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=device.type == "cuda"
    )
    for update in range(args.updates):
        totals = {}
        for _ in range(args.accumulation):
            images, targets = zip(*[scene(rng, args.size) for _ in range(args.batch_size)])
            images = [image.to(device) for image in images]
            targets = [{name: t.to(device) for name, t in target.items()} for target in targets]
            losses = model(images, targets)
            (sum(losses.values()) / args.accumulation).backward()
            for name, value in losses.items():
                totals[name] = totals.get(name, 0.0) + value.item() / args.accumulation
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update}:", {name: round(value, 3) for name, value in totals.items()})


if __name__ == "__main__":
    main()
