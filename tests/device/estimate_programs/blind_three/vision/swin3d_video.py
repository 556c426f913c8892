"""Clips with torchvision's Video Swin: frames in pinned memory, layer-wise rates."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models.video import swin3d_t


class Clips(Dataset):
    """Each video has more frames than a clip; a clip takes every second one from a random start."""

    def __init__(self, n, frames, size, classes):
        self.n, self.frames, self.size, self.classes = n, frames, size, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        shape = (3 * self.frames, 3, self.size, self.size)
        video = torch.randint(0, 256, shape, generator=gen, dtype=torch.uint8)
        start = int(torch.randint(0, self.frames, (), generator=gen))
        clip = video[start : start + 2 * self.frames : 2]
        return clip.transpose(0, 1), i % self.classes


def layer_rates(model, lr, decay=0.75):
    """Lower layers learn more slowly."""
    groups = []
    depth = len(model.features)
    for i, stage in enumerate(model.features):
        groups.append({"params": list(stage.parameters()), "lr": lr * decay ** (depth - i)})
    taken = {id(p) for g in groups for p in g["params"]}
    groups.append({"params": [p for p in model.parameters() if id(p) not in taken]})
    return groups


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--classes", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Clips(args.steps * args.batch_size, args.frames, args.size, args.classes),
        args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
        prefetch_factor=2,
    )
    model = swin3d_t(weights=None, num_classes=args.classes, dropout=0.1).to(device)
    optimizer = torch.optim.AdamW(layer_rates(model, 1e-3), lr=1e-3, weight_decay=0.05)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step, (clips, labels) in enumerate(loader):
        clips = clips.to(device, non_blocking=True).float().div(255).sub(0.45).div(0.225)
        labels = labels.to(device, non_blocking=True)
        if torch.rand(()) < 0.5:
            clips = clips.flip(-1)
        loss = criterion(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        views = torch.stack([model(clips), model(clips.flip(-1))]).softmax(-1).mean(0)
    print("right:", (views.argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    main()
