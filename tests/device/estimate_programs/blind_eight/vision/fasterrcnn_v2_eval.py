"""Faster R-CNN v2 on images of different shapes, with a warm-up schedule and detections on held-out
images after training.
"""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import fasterrcnn_resnet50_fpn_v2


class Pedestrians(Dataset):
    def __init__(self, count, height, width, classes):
        self.count, self.height, self.width, self.classes = count, height, width, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        h = self.height + int(torch.randint(-2, 3, (1,), generator=generator)) * 16
        w = self.width + int(torch.randint(-2, 3, (1,), generator=generator)) * 16
        count = int(torch.randint(1, 8, (1,), generator=generator))
        corner = torch.rand(count, 2, generator=generator) * torch.tensor([w * 0.6, h * 0.6])
        side = 8 + torch.rand(count, 2, generator=generator) * torch.tensor([w * 0.3, h * 0.3])
        target = {
            "boxes": torch.cat([corner, corner + side], dim=1),
            "labels": torch.randint(1, self.classes, (count,), generator=generator),
            "image_id": torch.tensor(i),
        }
        return torch.rand(3, h, w, generator=generator), target


def collate_fn(batch):
    return tuple(zip(*batch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--min-size", type=int, default=640)
    parser.add_argument("--max-size", type=int, default=960)
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = fasterrcnn_resnet50_fpn_v2(
        weights=None,
        weights_backbone=None,
        num_classes=args.classes,
        min_size=args.min_size,
        max_size=args.max_size,
    ).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=0.0005)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.001, total_iters=10)
    data = Pedestrians(args.batch_size * args.steps, args.height, args.width, args.classes)
    loader = DataLoader(data, args.batch_size, collate_fn=collate_fn, num_workers=2)
    model.train()
    for step, (images, targets) in enumerate(loader):
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        print(step, {name: round(value.item(), 4) for name, value in losses.items()})
    model.eval()
    with torch.no_grad():
        found = model([data[i][0].to(device) for i in range(2)])
    print("detections", [len(one["boxes"]) for one in found])


if __name__ == "__main__":
    main()
