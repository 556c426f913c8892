"""Serving a ResNet-50 in fp16: the forward pass is captured in one CUDA graph per batch size, and
requests are copied into its input.
"""

import argparse
import random

import torch
import torchvision


class GraphedModel:
    def __init__(self, model, sample, warmup=3):
        self.model = model
        self.static_input = torch.zeros_like(sample)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(warmup):
                model(self.static_input)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.static_output = model(self.static_input)

    def __call__(self, x):
        self.static_input.copy_(x)
        self.graph.replay()
        return self.static_output.clone()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 16, 4, 1])
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(1)
    dtype = getattr(torch, args.dtype)
    model = torchvision.models.resnet50(num_classes=args.classes).to("cuda", dtype).eval()
    runners = {}
    for size in sorted(args.sizes, reverse=True):
        sample = torch.zeros(size, 3, args.image, args.image, device="cuda", dtype=dtype)
        runners[size] = model if args.eager else GraphedModel(model, sample)
    for number in range(args.requests):
        count = rng.randint(1, max(args.sizes))
        size = min(size for size in args.sizes if size >= count)
        images = torch.rand(count, 3, args.image, args.image)
        batch = torch.zeros(size, 3, args.image, args.image, dtype=dtype)
        batch[:count] = images.to(dtype)
        with torch.no_grad():
            logits = runners[size](batch.to("cuda"))[:count]
        top = logits.float().softmax(-1).max(-1)
        print(f"request {number}: {count} images in {size}, best {top.indices[0].item()}")


if __name__ == "__main__":
    main()
