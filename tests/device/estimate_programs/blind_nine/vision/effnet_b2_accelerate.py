"""EfficientNet-B2 with Accelerate: bf16, accumulation, EMA of the weights, RMSprop."""

import argparse

import torch
import torch.nn.functional as F
import torchvision
from accelerate import Accelerator
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=24)
    parser.add_argument("--size", type=int, default=260)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--mixed_precision", default="bf16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=2)
    model = torchvision.models.efficientnet_b2(num_classes=args.classes)
    ema = AveragedModel(
        model, device=accelerator.device, multi_avg_fn=get_ema_multi_avg_fn(0.999), use_buffers=True
    )
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=0.01, alpha=0.9, momentum=0.9, eps=0.0316, weight_decay=1e-5
    )
    count = args.batch_size * args.batches
    images = torch.randint(0, 256, (count, 3, args.size, args.size), dtype=torch.uint8)
    data = TensorDataset(images, torch.randint(0, args.classes, (count,)))
    loader = DataLoader(data, args.batch_size, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            x = (x.float() / 255 - 0.45) / 0.225
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            ema.update_parameters(accelerator.unwrap_model(model))
            accelerator.print(loss.item())


if __name__ == "__main__":
    main()
