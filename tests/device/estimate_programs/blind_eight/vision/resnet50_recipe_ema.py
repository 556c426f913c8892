"""ResNet-50 with a modern recipe: channels_last, bf16, SGD with Nesterov momentum, label smoothing,
mixup, worker processes, an averaged copy of the weights that is evaluated.
"""

import argparse

import torch
import torchvision
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, default_collate
from torchvision.transforms import v2


def make_loader(args, train):
    size = args.size
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(size, antialias=True) if train else v2.CenterCrop(size),
            v2.RandomHorizontalFlip(0.5 if train else 0.0),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    images = args.batch_size * (args.batches if train else 1)
    data = torchvision.datasets.FakeData(
        images, (3, size + 32, size + 32), args.classes, transform=transform
    )
    mixup = v2.MixUp(alpha=0.2, num_classes=args.classes)
    return DataLoader(
        data,
        batch_size=args.batch_size,
        shuffle=train,
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=args.workers > 0,
        collate_fn=(lambda rows: mixup(*default_collate(rows))) if train else None,
    )


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    right = total = 0
    for images, labels in loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = model(images).argmax(1)
        right += (guess == labels.to(device)).sum().item()
        total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=176)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    model = torchvision.models.resnet50(num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=False)
    norms = [p for n, p in model.named_parameters() if p.ndim == 1]
    others = [p for n, p in model.named_parameters() if p.ndim > 1]
    optimizer = torch.optim.SGD(
        [{"params": norms, "weight_decay": 0.0}, {"params": others}],
        lr=0.5,
        momentum=0.9,
        nesterov=True,
        weight_decay=2e-5,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.batches)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for i, (images, targets) in enumerate(make_loader(args, train=True)):
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        targets = targets.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        print(f"batch {i} loss {loss.item():.3f}")
    print("accuracy", evaluate(average, make_loader(args, train=False), device))


if __name__ == "__main__":
    main()
