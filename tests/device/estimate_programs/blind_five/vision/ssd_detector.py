"""SSD300 from torchvision: SGD with warm-up, varying numbers of boxes, detection after training."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import ssd300_vgg16


class Boxes(Dataset):
    def __init__(self, n, size, classes):
        self.n, self.size, self.classes = n, size, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.size, self.size, generator=g)
        count = int(torch.randint(1, 9, (1,), generator=g))
        corner = torch.rand(count, 2, generator=g) * self.size * 0.6
        extent = (0.1 + 0.3 * torch.rand(count, 2, generator=g)) * self.size
        boxes = torch.cat((corner, corner + extent), dim=1)
        labels = torch.randint(1, self.classes, (count,), generator=g)
        return image, {"boxes": boxes, "labels": labels}


def collate(batch):
    return tuple(zip(*batch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(9)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=args.classes).to(device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=2e-3, momentum=0.9, weight_decay=5e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=3)
    data = Boxes(args.batches * args.batch_size, args.size, args.classes)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=2, collate_fn=collate)
    model.train()
    for images, targets in loader:
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in target.items()} for target in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        print({k: round(v.item(), 3) for k, v in losses.items()})
    model.eval()
    with torch.no_grad():
        found = model([data[i][0].to(device) for i in range(4)])
    print([len(f["boxes"]) for f in found])


if __name__ == "__main__":
    main()
