"""Train a torchvision Swin with CutMix, mixed precision, a loss scaler and worker processes."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import models
from torchvision.transforms import v2


class RandomImages(Dataset):
    """Stands in for an image folder: coloured noise with a class-dependent mean."""

    def __init__(self, length, classes, size, train):
        self.length = length
        self.classes = classes
        steps = [v2.RandomResizedCrop(size, scale=(0.3, 1.0), antialias=True)] if train else []
        steps += [v2.RandomHorizontalFlip()] if train else [v2.CenterCrop(size)]
        steps += [
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
        self.transform = v2.Compose(steps)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.randint(0, 256, (3, 256, 256), generator=generator, dtype=torch.uint8)
        return self.transform(image), index % self.classes


class CutMixCollate:
    def __init__(self, classes):
        self.cutmix = v2.CutMix(num_classes=classes, alpha=1.0)

    def __call__(self, batch):
        return self.cutmix(*default_collate(batch))


def accuracy(model, loader, device):
    model.eval()
    right, total = 0, 0
    with torch.inference_mode():
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                logits = model(images)
            right += (logits.argmax(1) == labels).sum().item()
            total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="swin_s")
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--val-batch-size", type=int, default=128)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--train-images", type=int, default=480)
    parser.add_argument("--val-images", type=int, default=160)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda")
    model = models.get_model(args.arch, weights=None, num_classes=args.classes).to(device)

    train_loader = DataLoader(
        RandomImages(args.train_images, args.classes, args.image_size, train=True),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
        collate_fn=CutMixCollate(args.classes),
    )
    val_loader = DataLoader(
        RandomImages(args.val_images, args.classes, args.image_size, train=False),
        batch_size=args.val_batch_size,
        num_workers=args.workers,
        pin_memory=True,
    )

    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}],
        lr=args.lr,
    )
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[3])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)

    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        for i, (images, targets) in enumerate(train_loader):
            images = images.to(device, non_blocking=True)
            targets = targets.to(device, non_blocking=True)
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = criterion(model(images), targets)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            print(f"epoch {epoch} step {i} loss {loss.item():.4f} {time.time() - start:.1f}s")
        print(f"epoch {epoch} accuracy {accuracy(model, val_loader, device):.3f}")


if __name__ == "__main__":
    main()
