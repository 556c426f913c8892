"""Faster R-CNN over a single feature map of MobileNet v2, built from its parts, on synthetic
warehouse pictures: a warm-up schedule, then average recall on a few held-out pictures.
"""

import argparse

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign, box_iou


class Warehouse(Dataset):
    def __init__(self, length, height, width, classes, seed=0):
        self.length = length
        self.height = height
        self.width = width
        self.classes = classes
        self.seed = seed

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(self.seed + index)
        image = torch.rand(3, self.height, self.width, generator=g) * 0.2
        count = int(torch.randint(2, 12, (1,), generator=g))
        x = torch.rand(count, generator=g) * self.width * 0.7
        y = torch.rand(count, generator=g) * self.height * 0.7
        w = self.width * (0.05 + 0.2 * torch.rand(count, generator=g))
        h = self.height * (0.05 + 0.2 * torch.rand(count, generator=g))
        boxes = torch.stack([x, y, x + w, y + h], dim=1)
        labels = torch.randint(1, self.classes, (count,), generator=g)
        for (x1, y1, x2, y2), label in zip(boxes.int().tolist(), labels.tolist()):
            image[label % 3, y1:y2, x1:x2] += 0.2 + 0.5 * label / self.classes
        return image, {"boxes": boxes, "labels": labels, "image_id": index}


def collate(batch):
    return tuple(zip(*batch))


def build(classes, min_size, max_size):
    backbone = torchvision.models.mobilenet_v2(weights=None).features
    backbone.out_channels = 1280
    anchors = AnchorGenerator(sizes=((32, 64, 128, 256, 512),), aspect_ratios=((0.5, 1.0, 2.0),))
    pooler = MultiScaleRoIAlign(featmap_names=["0"], output_size=7, sampling_ratio=2)
    return FasterRCNN(
        backbone,
        num_classes=classes,
        rpn_anchor_generator=anchors,
        box_roi_pool=pooler,
        min_size=min_size,
        max_size=max_size,
        box_score_thresh=0.01,
    )


@torch.inference_mode()
def recall(model, loader, device):
    model.eval()
    hit, total = 0, 0
    for images, targets in loader:
        outputs = model([image.to(device) for image in images])
        for output, target in zip(outputs, targets):
            boxes = output["boxes"].cpu()
            total += len(target["boxes"])
            if len(boxes):
                hit += int((box_iou(target["boxes"], boxes).amax(dim=1) > 0.5).sum())
    return hit / max(total, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", type=int, default=6)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--width", type=int, default=960)
    parser.add_argument("--min-size", type=int, default=600)
    parser.add_argument("--max-size", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    model = build(args.classes, args.min_size, args.max_size).to(device)
    train = Warehouse(args.steps * args.batch_size, args.height, args.width, args.classes)
    test = Warehouse(4, args.height, args.width, args.classes, seed=10_000)
    train_loader = DataLoader(
        train, args.batch_size, shuffle=True, num_workers=args.workers, collate_fn=collate
    )
    test_loader = DataLoader(test, 2, collate_fn=collate)

    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.002, momentum=0.9, weight_decay=0.0005)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=10)

    model.train()
    for step, (images, targets) in enumerate(train_loader):
        images = [image.to(device) for image in images]
        targets = [
            {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()}
            for t in targets
        ]
        losses = model(images, targets)
        loss = sum(losses.values())
        if not torch.isfinite(loss):
            raise SystemExit(f"loss is {loss.item()}, stopping training")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        print(f"[{step}] loss {loss.item():.4f} objectness {losses['loss_objectness'].item():.4f}")
    print(f"recall {recall(model, test_loader, device):.3f}")


if __name__ == "__main__":
    main()
