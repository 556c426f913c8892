"""RetinaNet from torchvision with a new image size for every batch, then boxes."""

import argparse
import random

import torch
from torchvision.models.detection import retinanet_resnet50_fpn_v2


def scene(rng, side, classes):
    boxes = []
    for _ in range(rng.randint(1, 12)):
        x, y = rng.uniform(0, 0.7 * side), rng.uniform(0, 0.7 * side)
        w, h = rng.uniform(0.05, 0.3) * side, rng.uniform(0.05, 0.3) * side
        boxes.append([x, y, x + w, y + h])
    labels = torch.tensor([rng.randrange(classes) for _ in boxes])
    return torch.rand(3, side, side), {"boxes": torch.tensor(boxes), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 608, 448, 640])
    parser.add_argument("--classes", type=int, default=80)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = retinanet_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=args.classes,
        trainable_backbone_layers=5,
        min_size=min(args.sizes),
        max_size=max(args.sizes),
    ).to(device)
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad],
        lr=0.002,
        momentum=0.9,
        weight_decay=1e-4,
    )
    model.train()
    for step, side in enumerate(args.sizes):
        model.transform.min_size = (side,)
        images, targets = zip(*(scene(rng, side, args.classes) for _ in range(args.batch_size)))
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in target.items()} for target in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        print(f"step {step}: side {side} loss {loss.item():.3f}")
    model.eval()
    with torch.inference_mode():
        found = model(images)
    print("boxes", [len(one["boxes"]) for one in found])


if __name__ == "__main__":
    main()
