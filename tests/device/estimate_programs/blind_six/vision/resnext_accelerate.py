"""ResNeXt-50 with accelerate: bf16, accumulation, synchronised evaluation, cosine schedule,
checkpoints.
"""

import argparse
import tempfile

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnext50_32x4d


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.precision, gradient_accumulation_steps=2)
    model = resnext50_32x4d(num_classes=args.classes, zero_init_residual=True)
    plain, decayed = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim == 1 or name.endswith("bias") else decayed).append(p)
    optimizer = torch.optim.SGD(
        [{"params": plain}, {"params": decayed, "weight_decay": 1e-4}], lr=0.1, momentum=0.9
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    images = torch.randn(6 * args.batch_size, 3, args.size, args.size)
    data = TensorDataset(images, torch.randint(args.classes, (len(images),)))
    loader = DataLoader(data, args.batch_size, shuffle=True)
    held_out = DataLoader(data, 2 * args.batch_size)
    model, optimizer, loader, held_out, schedule = accelerator.prepare(
        model, optimizer, loader, held_out, schedule
    )
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        model.train()
        for index, (x, y) in enumerate(loader):
            if index == 4:
                break
            with accelerator.accumulate(model):
                loss = criterion(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = 0
        for x, y in held_out:
            with torch.no_grad():
                guess = model(x).argmax(-1)
            guess, y = accelerator.gather_for_metrics((guess, y))
            right += guess.eq(y).sum().item()
        accelerator.print(epoch, right)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), tempfile.mktemp(suffix=".pt"))


if __name__ == "__main__":
    main()
