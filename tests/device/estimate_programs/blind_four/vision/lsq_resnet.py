"""Quantisation-aware training: ResNet-34 with learned step sizes (LSQ)."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet34


class RoundSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, low, high):
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return (x / step).round().clamp(low, high) * step

    @staticmethod
    def backward(ctx, grad):
        x, step = ctx.saved_tensors
        q = x / step
        below, above = q < ctx.low, q > ctx.high
        inside = ~(below | above)
        slope = torch.where(inside, q.round() - q, q.clamp(ctx.low, ctx.high))
        scale = (x.numel() * ctx.high) ** -0.5
        return grad * inside, (grad * slope).sum().view_as(step) * scale, None, None


class QuantConv(nn.Module):
    def __init__(self, conv, bits):
        super().__init__()
        self.conv = conv
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.weight_step = nn.Parameter(2 * conv.weight.detach().abs().mean() / self.high**0.5)
        self.input_step = nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        x = RoundSteps.apply(x, self.input_step.abs() + 1e-6, self.low, self.high)
        w = RoundSteps.apply(self.conv.weight, self.weight_step.abs() + 1e-6, self.low, self.high)
        c = self.conv
        return F.conv2d(x, w, c.bias, c.stride, c.padding, c.dilation, c.groups)


def quantise(module, bits):
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d) and child.in_channels > 3:
            setattr(module, name, QuantConv(child, bits))
        else:
            quantise(child, bits)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=176)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = quantise(resnet34(weights=None, num_classes=args.classes), args.bits).to(device)
    steps = [p for n, p in model.named_parameters() if n.endswith("_step")]
    rest = [p for n, p in model.named_parameters() if not n.endswith("_step")]
    optimizer = torch.optim.Adam(
        [{"params": rest, "lr": 1e-3}, {"params": steps, "lr": 1e-4}], amsgrad=True
    )
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        labels = torch.randint(args.classes, (args.batch_size,)).to(device)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        print("first", model(images[:8]).argmax(1).tolist())


if __name__ == "__main__":
    main()
