"""Object detection with torchvision's Faster R-CNN on made-up scenes of rectangles."""

import argparse
import random

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import fasterrcnn_resnet50_fpn


class Scenes(Dataset):
    """Noise with bright rectangles; each has a box and a label."""

    def __init__(self, count, height, width, seed):
        self.count, self.height, self.width, self.seed = count, height, width, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = random.Random(self.seed * 1000 + index)
        image = torch.rand(3, self.height, self.width)
        boxes, labels = [], []
        for _ in range(rng.randint(2, 8)):
            w = rng.randint(self.width // 16, self.width // 3)
            h = rng.randint(self.height // 16, self.height // 3)
            x, y = rng.randint(0, self.width - w - 1), rng.randint(0, self.height - h - 1)
            label = rng.randint(1, 3)
            image[label - 1, y : y + h, x : x + w] = 1.0
            boxes.append([x, y, x + w, y + h])
            labels.append(label)
        return image, {
            "boxes": torch.tensor(boxes, dtype=torch.float32),
            "labels": torch.tensor(labels),
        }


def collate(batch):
    return tuple(zip(*batch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--min-size", type=int, default=600)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model = fasterrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=4,
        min_size=args.min_size,
        max_size=2 * args.min_size,
        trainable_backbone_layers=5,
    )
    model.to(device)
    scenes = Scenes(args.batch_size * args.steps, args.height, args.width, args.seed)
    loader = DataLoader(scenes, args.batch_size, shuffle=True, num_workers=2, collate_fn=collate)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=0.0005)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.001, total_iters=10)

    model.train()
    for step, (images, targets) in enumerate(loader):
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in target.items()} for target in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        parts = ", ".join(f"{name} {value.item():.3f}" for name, value in losses.items())
        print(f"step {step}: {loss.item():.4f} ({parts})")

    model.eval()
    with torch.no_grad():
        found = model([scenes[0][0].to(device)])[0]
    print(f"found {len(found['boxes'])} boxes")


if __name__ == "__main__":
    main()
