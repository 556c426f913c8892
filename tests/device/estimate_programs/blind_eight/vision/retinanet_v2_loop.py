"""RetinaNet v2 with bf16 autocast and AdamW, backbone frozen up to its last two stages."""

import argparse

import torch
from torchvision.models.detection import retinanet_resnet50_fpn_v2


def make_batch(rng, size, side, classes, device):
    images, targets = [], []
    for _ in range(size):
        count = int(torch.randint(1, 10, (1,), generator=rng))
        corner = torch.rand(count, 2, generator=rng) * side * 0.5
        extent = torch.rand(count, 2, generator=rng) * side * 0.4 + 4
        images.append(torch.rand(3, side, side, generator=rng).to(device))
        labels = torch.randint(0, classes, (count,), generator=rng)
        boxes = torch.cat([corner, corner + extent], 1)
        targets.append({"boxes": boxes.to(device), "labels": labels.to(device)})
    return images, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = retinanet_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=args.classes,
        min_size=args.side,
        max_size=args.side,
    )
    body = model.backbone.body
    for name, p in body.named_parameters():
        p.requires_grad_(name.startswith(("layer3", "layer4")))
    model.to(device).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=1e-4)
    rng = torch.Generator().manual_seed(0)
    for step in range(args.steps):
        images, targets = make_batch(rng, args.batch_size, args.side, args.classes, device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            losses = model(images, targets)
            loss = losses["classification"] + losses["bbox_regression"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.1)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
