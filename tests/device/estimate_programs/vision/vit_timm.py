"""Trains a ViT of timm: mixup, soft targets, an averaged copy of the model, bf16 autocast."""

import argparse

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--drop-path", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


@torch.no_grad()
def validate(model, args, device):
    model.eval()
    images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
    target = torch.randint(0, args.classes, (args.batch_size,), device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        output = model(images)
    top5 = output.topk(5, dim=1).indices
    return (top5 == target[:, None]).any(1).float().mean().item()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = timm.create_model(
        args.model, num_classes=args.classes, img_size=args.size, drop_path_rate=args.drop_path
    ).to(device)
    ema = ModelEmaV3(model, decay=0.999)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=args.classes)
    criterion = SoftTargetCrossEntropy()
    optimizer = torch.optim.AdamW(
        param_groups_weight_decay(model, 0.05), lr=1e-3, betas=(0.9, 0.999)
    )
    scheduler = CosineLRScheduler(optimizer, t_initial=args.steps, warmup_t=1, t_in_epochs=False)

    model.train()
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        target = torch.randint(0, args.classes, (args.batch_size,)).to(device)
        images, target = mixup(images, target)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = criterion(model(images), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.update(model, step=step)
        scheduler.step_update(step + 1)
        print(f"step {step} loss {loss.item():.4f}")
    print(f"top-5 of the average: {validate(ema.module, args, device):.4f}")


if __name__ == "__main__":
    main()
