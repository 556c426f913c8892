"""The ImageNet recipe: ResNet-50, SGD, worker processes, pinned memory, channels_last."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class FakeImageNet(Dataset):
    def __init__(self, count, classes, transform):
        self.count, self.classes, self.transform = count, classes, transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.randint(0, 256, (3, 256, 256), dtype=torch.uint8, generator=generator)
        return self.transform(image), index % self.classes


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / max(self.count, 1)


def accuracy(output, target, topk=(1, 5)):
    _, predicted = output.topk(max(topk), 1, True, True)
    correct = predicted.t().eq(target.view(1, -1).expand(max(topk), -1))
    return [correct[:k].reshape(-1).float().sum().mul_(100.0 / target.size(0)).item() for k in topk]


def train(loader, model, criterion, optimizer, device):
    losses, top1 = AverageMeter(), AverageMeter()
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        losses.update(loss.item(), images.size(0))
        top1.update(accuracy(output, target)[0], images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"[{i}] {time.time() - end:.2f} s loss {losses.average:.4f} acc@1 {top1.average:.2f}")
        end = time.time()


@torch.no_grad()
def validate(loader, model, criterion, device):
    losses = AverageMeter()
    model.eval()
    for images, target in loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        losses.update(criterion(model(images), target).item(), images.size(0))
    print(f"validation loss {losses.average:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda")
    transform = v2.Compose(
        [
            v2.RandomResizedCrop(args.size, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    options = {"batch_size": args.batch_size, "num_workers": args.workers, "pin_memory": True}
    training = DataLoader(
        FakeImageNet(args.batch_size * args.steps, 1000, transform), shuffle=True, **options
    )
    validation = DataLoader(FakeImageNet(args.batch_size, 1000, transform), **options)
    model = torchvision.models.resnet50(weights=None).to(device, memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    train(training, model, criterion, optimizer, device)
    scheduler.step()
    validate(validation, model, criterion, device)


if __name__ == "__main__":
    main()
