"""MViT v2 on short clips: fp16 scaling, accumulation over two clips, evaluation over three
crops.
"""

import argparse

import torch
import torch.nn.functional as F
from torchvision.models.video import mvit_v2_s


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--classes", type=int, default=174)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = mvit_v2_s(weights=None, num_classes=args.classes).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.6e-3, weight_decay=0.05)
    scaler = torch.amp.GradScaler(args.device)
    half = torch.float16 if args.device == "cuda" else torch.bfloat16
    for step in range(args.steps):
        clips = torch.rand(args.batch_size, 3, 16, 224, 224).to(args.device)
        labels = torch.randint(args.classes, (args.batch_size,)).to(args.device)
        with torch.autocast(args.device, half):
            loss = F.cross_entropy(model(clips), labels) / 2
        scaler.scale(loss).backward()
        if step % 2 == 1:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        print(step, loss.item())
    model.eval()
    with torch.no_grad(), torch.autocast(args.device, half):
        crops = torch.rand(3, 3, 16, 224, 224).to(args.device)
        print(model(crops).softmax(-1).mean(0).argmax().item())


if __name__ == "__main__":
    main()
