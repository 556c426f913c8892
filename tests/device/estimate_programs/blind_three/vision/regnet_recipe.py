"""RegNet by the reference recipe: mixup and cutmix, EMA, fp16 in channels_last, warm-up rates."""

import argparse

import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.models import regnet_y_3_2gf
from torchvision.transforms import v2


class Pictures(Dataset):
    def __init__(self, n, size, classes):
        self.n, self.classes = n, classes
        self.bank = torch.randint(0, 256, (16, 3, size + 32, size + 32), dtype=torch.uint8)
        self.transform = v2.Compose(
            [
                v2.RandomCrop(size),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.transform(self.bank[i % len(self.bank)]), i % self.classes


def split_parameters(model):
    """No weight decay on norms and biases."""
    plain, decayed = [], []
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            is_norm = isinstance(module, nn.BatchNorm2d)
            (plain if is_norm or name == "bias" else decayed).append(p)
    return [{"params": decayed, "weight_decay": 5e-5}, {"params": plain, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    mix = v2.RandomChoice(
        [v2.MixUp(alpha=0.2, num_classes=args.classes), v2.CutMix(num_classes=args.classes)]
    )
    loader = DataLoader(
        Pictures(args.steps * args.batch_size, args.size, args.classes),
        args.batch_size,
        shuffle=True,
        collate_fn=lambda rows: mix(*default_collate(rows)),
    )
    model = regnet_y_3_2gf(weights=None, num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    averaged = AveragedModel(
        model, device, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True
    )
    optimizer = torch.optim.SGD(split_parameters(model), lr=0.5, momentum=0.9)
    rate = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(args.steps - 2, 1)),
        ],
        milestones=[2],
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step, (images, targets) in enumerate(loader):
        images = images.to(device, memory_format=torch.channels_last, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
        with torch.autocast(device.type, dtype=dtype):
            loss = criterion(model(images), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        rate.step()
        averaged.update_parameters(model)
        print(f"step {step}: {loss.item():.4f}")
    averaged.eval()
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        print("confidence", averaged(images).softmax(1).amax(1).mean().item())


if __name__ == "__main__":
    main()
