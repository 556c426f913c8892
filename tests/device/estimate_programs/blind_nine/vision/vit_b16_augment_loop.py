"""torchvision's ViT in a plain loop: images normalised on the GPU, bf16, accumulation, clipping."""

import argparse

import torch
import torch.nn as nn
from torchvision.models import VisionTransformer
from torchvision.transforms import v2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = VisionTransformer(
        image_size=args.size,
        patch_size=16,
        num_layers=args.layers,
        num_heads=args.dim // 64,
        hidden_dim=args.dim,
        mlp_dim=4 * args.dim,
        dropout=0.1,
        num_classes=args.classes,
    ).cuda()
    transform = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        ]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.3)
    criterion = nn.CrossEntropyLoss()
    for update in range(args.updates):
        optimizer.zero_grad()
        for _ in range(2):
            shape = (args.batch_size, 3, args.size, args.size)
            images = torch.randint(0, 256, shape, dtype=torch.uint8).cuda()
            labels = torch.randint(0, args.classes, (args.batch_size,)).cuda()
            images = transform(images)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(images), labels) / 2
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(update, loss.item() * 2, norm.item())


if __name__ == "__main__":
    main()
