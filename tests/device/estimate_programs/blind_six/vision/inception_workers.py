"""Inception v3 with its auxiliary head: worker processes, augmentations, pinned memory, RMSprop."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import inception_v3
from torchvision.transforms import v2


class Flowers(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.classes = count, classes
        self.transform = v2.Compose(
            [
                v2.RandomResizedCrop(size, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.5] * 3),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        image = torch.randint(0, 256, (3, 320, 340), dtype=torch.uint8)
        return self.transform(image), i % self.classes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=299)
    parser.add_argument("--classes", type=int, default=102)
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = inception_v3(
        weights=None, num_classes=args.classes, aux_logits=True, init_weights=False
    )
    model.to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.045, alpha=0.9, eps=1.0, momentum=0.9)
    loader = DataLoader(
        Flowers(5 * args.batch_size + 10, args.size, args.classes),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=True,
    )
    model.train()
    for step, (images, labels) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        out = model(images)
        loss = F.cross_entropy(out.logits, labels) + 0.4 * F.cross_entropy(out.aux_logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(step, len(images), loss.item())


if __name__ == "__main__":
    main()
