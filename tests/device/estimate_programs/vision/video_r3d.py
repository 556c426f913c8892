"""Action recognition with a 3-D ResNet on clips, bf16 autocast, EMA weights for evaluation."""

import argparse

import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.models.video import r3d_18


def clips(args, device):
    video = torch.rand(args.batch_size, 3, args.frames, args.size, args.size)
    labels = torch.randint(0, args.classes, (args.batch_size,))
    return video.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = r3d_18(weights=None, num_classes=args.classes).to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps),
        ],
        milestones=[2],
    )

    model.train()
    for step in range(args.steps):
        video, labels = clips(args, device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(video)
            loss = criterion(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 40.0)
        optimizer.step()
        scheduler.step()
        average.update_parameters(model)
        print(f"step {step} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.4f}")

    average.eval()
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        video, labels = clips(args, device)
        # Three crops in time, averaged.
        scores = sum(average(video.roll(shift, dims=2)).softmax(-1) for shift in (0, 4, 8))
    print(f"accuracy {(scores.argmax(1) == labels).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
