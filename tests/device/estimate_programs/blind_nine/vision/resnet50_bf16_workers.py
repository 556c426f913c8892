"""ImageNet-style ResNet-50: channels last, bf16 autocast, DataLoader workers, validation."""

import argparse

import torch
import torch.nn as nn
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


def make_loader(args, batches, train):
    steps = [transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip()]
    if not train:
        steps = [transforms.Resize(args.size + 32), transforms.CenterCrop(args.size)]
    steps += [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.2] * 3)]
    data = torchvision.datasets.FakeData(
        args.batch_size * batches,
        (3, args.size + 32, args.size + 32),
        args.classes,
        transforms.Compose(steps),
    )
    return DataLoader(
        data, args.batch_size, shuffle=train, num_workers=args.workers, pin_memory=True
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda")
    model = torchvision.models.resnet50(weights=None, num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.batches)
    model.train()
    for i, (images, target) in enumerate(make_loader(args, args.batches, True)):
        images = images.to(device, non_blocking=True).to(memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"[{i}] loss {loss.item():.4f}")
    model.eval()
    right = 0
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        for images, target in make_loader(args, 1, False):
            images = images.to(device).to(memory_format=torch.channels_last)
            right += (model(images).argmax(1) == target.to(device)).sum().item()
    print("right", right)


if __name__ == "__main__":
    main()
