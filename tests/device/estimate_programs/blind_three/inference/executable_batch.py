"""Lets accelerate find a batch size that fits in a share of the GPU, and trains with it."""

import argparse

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import wide_resnet50_2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256, help="to begin with")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.09)
    args = parser.parse_args()
    torch.manual_seed(0)
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(args.share, 0)
    accelerator = Accelerator()
    images = torch.randint(0, 256, (args.images, 3, args.size, args.size), dtype=torch.uint8)
    labels = torch.randint(args.classes, (args.images,))

    @find_executable_batch_size(starting_batch_size=args.batch_size)
    def train(batch_size):
        print(f"trying batches of {batch_size}")
        accelerator.free_memory()
        torch.manual_seed(0)
        model = wide_resnet50_2(weights=None, num_classes=args.classes)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        loader = DataLoader(TensorDataset(images, labels), batch_size)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for step, (x, y) in enumerate(loader):
            if step == 3:
                break
            loss = nn.functional.cross_entropy(model(x.float() / 255), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step}: {loss.item():.4f}")
        return batch_size

    print("trained with batches of", train())


if __name__ == "__main__":
    main()
