"""ResNet-50 trained in stages of growing pictures and shrinking batches, channels last, fp16."""

import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet50


@dataclass
class Stage:
    size: int
    batch: int
    steps: int


def parse_stage(text):
    size, batch, steps = (int(part) for part in text.split("x"))
    return Stage(size, batch, steps)


def no_decay_on_norms(model, decay):
    norms, others = [], []
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        (norms if isinstance(module, nn.BatchNorm2d) else others).extend(own)
    return [{"params": norms, "weight_decay": 0.0}, {"params": others, "weight_decay": decay}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--stages",
        type=parse_stage,
        nargs="+",
        default=[Stage(128, 256, 3), Stage(176, 160, 3), Stage(224, 112, 3)],
        help="SIZExBATCHxSTEPS each",
    )
    parser.add_argument("--pool", type=int, default=320, help="pictures kept in memory")
    parser.add_argument("--pool-size", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--max-lr", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    shape = (args.pool, 3, args.pool_size, args.pool_size)
    pool = torch.randint(0, 256, shape, dtype=torch.uint8)
    answers = torch.randint(0, args.classes, (args.pool,))

    model = resnet50(weights=None, num_classes=args.classes, zero_init_residual=True)
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        no_decay_on_norms(model, 5e-5), lr=args.max_lr, momentum=0.9, nesterov=True
    )
    total = sum(stage.steps for stage in args.stages)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.max_lr, total_steps=total + 1, pct_start=0.3
    )
    scaler = torch.amp.GradScaler("cuda", init_scale=4096.0)

    model.train()
    done = 0
    for number, stage in enumerate(args.stages):
        for _ in range(stage.steps):
            pick = torch.randint(0, args.pool, (stage.batch,))
            x = pool[pick].to(device, memory_format=torch.channels_last)
            x = x.float().sub_(127.5).div_(64)
            x = F.interpolate(x, size=(stage.size, stage.size), mode="bilinear", antialias=True)
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            y = answers[pick].to(device)
            with torch.autocast("cuda", dtype=torch.float16):
                logits = model(x)
                loss = F.cross_entropy(logits, y, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            done += 1
        print(
            f"stage {number} at {stage.size} pixels: {done}/{total} steps, loss {loss.item():.4f}"
        )


if __name__ == "__main__":
    main()
