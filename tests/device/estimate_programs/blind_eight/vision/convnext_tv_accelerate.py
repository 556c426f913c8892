"""torchvision's ConvNeXt with Accelerate: bf16, AdamW, accumulation, an evaluation per epoch."""

import argparse

import torch
import torchvision
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randn(3, self.size, self.size, generator=generator), i % self.classes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=102)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--mixed-precision", default="bf16")
    args = parser.parse_args()
    accelerator = Accelerator(
        mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accumulation
    )
    torch.manual_seed(0)
    model = torchvision.models.convnext_tiny(weights=None, num_classes=args.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-4, total_steps=100)
    train = DataLoader(
        Flowers(args.batch_size * args.batches, args.size, args.classes),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=2,
        drop_last=True,
    )
    test = DataLoader(Flowers(args.batch_size, args.size, args.classes), args.batch_size)
    model, optimizer, schedule, train, test = accelerator.prepare(
        model, optimizer, schedule, train, test
    )
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(2):
        model.train()
        for images, labels in train:
            with accelerator.accumulate(model):
                loss = criterion(model(images), labels)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = 0
        for images, labels in test:
            with torch.inference_mode():
                guess = model(images).argmax(dim=1)
            guess, labels = accelerator.gather_for_metrics((guess, labels))
            right += (guess == labels).sum().item()
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f} right {right}")


if __name__ == "__main__":
    main()
