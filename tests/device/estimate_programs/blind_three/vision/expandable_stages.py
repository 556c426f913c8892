"""Progressive resizing with expandable segments: pictures grow and batches shrink by stages."""

import argparse
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch
import torch.nn.functional as F
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 192, 288])
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 64, 32])
    parser.add_argument("--classes", type=int, default=120)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torchvision.models.efficientnet_v2_s(weights=None, num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for size, batch_size in zip(args.sizes, args.batches):
        for step in range(args.steps):
            images = torch.randn(batch_size, 3, size, size, device=device)
            images = images.contiguous(memory_format=torch.channels_last)
            labels = torch.randint(args.classes, (batch_size,), device=device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"size {size}, step {step}: {loss.item():.4f}")
        model.eval()
        with torch.no_grad():
            model(torch.randn(2 * batch_size, 3, size, size, device=device))
        model.train()


if __name__ == "__main__":
    main()
