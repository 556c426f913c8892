"""Bulk inference with a compiled RegNet from torchvision in bf16, batches of one size."""

import argparse

import torch
from torchvision.models import regnet_x_1_6gf


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(61)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = regnet_x_1_6gf(num_classes=1000).eval().to(device, memory_format=torch.channels_last)
    model = model.to(torch.bfloat16)
    if not args.eager:
        model = torch.compile(model)
    scores = []
    for _ in range(args.batches):
        images = torch.rand(args.batch, 3, args.size, args.size)
        images = images.to(device, torch.bfloat16, memory_format=torch.channels_last)
        probability = model(images).float().softmax(dim=-1)
        top = probability.topk(5)
        scores.append((top.values.cpu(), top.indices.cpu()))
    print(len(scores), scores[-1][0].mean().item())


if __name__ == "__main__":
    main()
