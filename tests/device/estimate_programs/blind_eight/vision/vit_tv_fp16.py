"""torchvision's ViT-B/16 with fp16 autocast and a scaler; images of two sizes of batch, as the
last batch of an epoch is smaller.
"""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import VisionTransformer


def train_one_epoch(model, loader, criterion, optimizer, scaler, epoch):
    model.train()
    for i, (images, target) in enumerate(loader):
        images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
        with torch.amp.autocast("cuda"):
            output = model(images)
            loss = criterion(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f}")


def validate(model, loader, criterion):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for images, target in loader:
            images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
            with torch.amp.autocast("cuda"):
                total += criterion(model(images), target).item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--images", type=int, default=168)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = VisionTransformer(
        args.size, 16, args.layers, args.dim // 64, args.dim, 4 * args.dim, num_classes=args.classes
    ).cuda()
    images = torch.randn(args.images, 3, args.size, args.size)
    labels = torch.randint(0, args.classes, (args.images,))
    loader = DataLoader(
        TensorDataset(images, labels), args.batch_size, shuffle=True, pin_memory=True
    )
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.3)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(args.epochs):
        train_one_epoch(model, loader, criterion, optimizer, scaler, epoch)
        print(f"epoch {epoch} validation {validate(model, loader, criterion):.4f}")


if __name__ == "__main__":
    main()
