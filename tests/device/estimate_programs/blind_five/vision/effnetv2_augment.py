"""EfficientNetV2-S in fp16 with augmentation on the GPU, RMSprop and gradient accumulation."""

import argparse

import torch
import torch.nn as nn
from torchvision.models import efficientnet_v2_s
from torchvision.transforms import v2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(101)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = efficientnet_v2_s(num_classes=args.classes, dropout=0.3).to(device)
    augment = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.RandomCrop(args.size, padding=16),
            v2.ColorJitter(brightness=0.2, contrast=0.2),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            v2.RandomErasing(p=0.25),
        ]
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=1e-3, alpha=0.9, momentum=0.9, weight_decay=1e-5
    )
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    for update in range(args.updates):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(args.accumulate):
            raw = torch.randint(
                0, 256, (args.batch_size, 3, args.size, args.size), dtype=torch.uint8
            )
            labels = torch.randint(0, args.classes, (args.batch_size,))
            images = augment(raw.to(device, non_blocking=True))
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=half):
                loss = criterion(model(images), labels) / args.accumulate
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        print(f"update {update}: {total:.4f}")


if __name__ == "__main__":
    main()
