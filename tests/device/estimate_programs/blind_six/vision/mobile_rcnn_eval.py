"""Faster R-CNN with MobileNet v3 and a feature pyramid: training steps, then boxes of the test
images.
"""

import argparse

import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_fpn


def scene(size, classes, seed):
    g = torch.Generator().manual_seed(seed)
    n = 3 + seed % 6
    corner = torch.rand(n, 2, generator=g) * size * 0.6
    extent = 20 + torch.rand(n, 2, generator=g) * size * 0.3
    boxes = torch.cat([corner, corner + extent], dim=1)
    labels = torch.randint(1, classes, (n,), generator=g)
    return torch.rand(3, size, size + 64, generator=g), {"boxes": boxes, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--classes", type=int, default=21)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_fpn(
        weights=None, weights_backbone=None, num_classes=args.classes, trainable_backbone_layers=6
    )
    model.to("cuda").train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.005, momentum=0.9, weight_decay=5e-4)
    for step in range(4):
        batch = [scene(args.size, args.classes, step * 10 + i) for i in range(args.batch_size)]
        images = [image.to("cuda") for image, _ in batch]
        targets = [{k: v.to("cuda") for k, v in target.items()} for _, target in batch]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, {k: round(v.item(), 3) for k, v in losses.items()})
    model.eval()
    with torch.no_grad():
        found = model([scene(args.size, args.classes, 99)[0].to("cuda") for _ in range(2)])
    print([len(each["boxes"]) for each in found])


if __name__ == "__main__":
    main()
