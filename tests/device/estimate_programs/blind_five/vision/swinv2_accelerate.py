"""SwinV2 from timm with accelerate: layer-wise rates, averaged weights, accumulation."""

import argparse

import timm
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from timm.utils import ModelEmaV3
from torch.utils.data import DataLoader, TensorDataset


def layer_groups(model, lr, decay=0.75):
    depth = len(model.layers) + 1
    groups = {}
    for name, p in model.named_parameters():
        level = int(name.split(".")[1]) if name.startswith("layers.") else 0
        level = depth if name.startswith(("head", "norm")) else level
        groups.setdefault(level, []).append(p)
    return [{"params": ps, "lr": lr * decay ** (depth - n)} for n, ps in sorted(groups.items())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="swinv2_tiny_window8_256")
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--classes", type=int, default=120)
    parser.add_argument("--precision", default="fp16")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.precision, gradient_accumulation_steps=2)
    torch.manual_seed(12)
    model = timm.create_model(args.model, num_classes=args.classes, drop_path_rate=0.1)
    optimizer = torch.optim.AdamW(layer_groups(model, 5e-4), weight_decay=0.05)
    images = torch.randn(6 * args.batch_size, 3, args.size, args.size)
    labels = torch.arange(len(images)) % args.classes
    train = DataLoader(TensorDataset(images, labels), args.batch_size, shuffle=True)
    held_out = DataLoader(TensorDataset(images[: args.batch_size], labels[: args.batch_size]), 16)
    model, optimizer, train, held_out = accelerator.prepare(model, optimizer, train, held_out)
    ema = ModelEmaV3(accelerator.unwrap_model(model), decay=0.9998)
    for step, (x, y) in enumerate(train):
        model.train()
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            ema.update(accelerator.unwrap_model(model))
        print(step, f"{loss.item():.4f}")
    ema.module.eval()
    right = 0
    with torch.no_grad():
        for x, y in held_out:
            right += (ema.module(x).argmax(-1) == y).sum()
    print("right", int(right))


if __name__ == "__main__":
    main()
