"""ShuffleNet in channels-last order with fp16 scaling, label smoothing and an average of the
weights.
"""

import argparse

import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.models import shufflenet_v2_x2_0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = shufflenet_v2_x2_0(num_classes=args.classes)
    model = model.to(args.device, memory_format=torch.channels_last)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.5, momentum=0.9, weight_decay=4e-5, nesterov=True
    )
    scaler = torch.amp.GradScaler(args.device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    half = torch.float16 if args.device == "cuda" else torch.bfloat16
    for step in range(5):
        images = torch.rand(args.batch_size, 3, args.size, args.size)
        images = images.to(args.device, memory_format=torch.channels_last)
        labels = torch.randint(args.classes, (args.batch_size,)).to(args.device)
        with torch.autocast(args.device, dtype=half):
            loss = criterion(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(model)
        print(step, loss.item())
    average.eval()
    with torch.no_grad():
        print(average(images).argmax(1).eq(labels).float().mean().item())


if __name__ == "__main__":
    main()
