"""An ensemble as one model: torch.func stacks the members, vmap runs and trains them together."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value, stack_module_state, vmap


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.GroupNorm(4, 2 * width),
            nn.ReLU(),
        )
        self.out = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.out(self.conv(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    models = [Net(args.width, args.classes).to(device) for _ in range(args.members)]
    params, buffers = stack_module_state(models)
    skeleton = copy.deepcopy(models[0]).to("meta")
    del models

    def loss_of(params, buffers, x, y):
        return F.cross_entropy(functional_call(skeleton, (params, buffers), (x,)), y)

    def predict(params, buffers, x):
        return functional_call(skeleton, (params, buffers), (x,)).softmax(-1)

    step_of = vmap(grad_and_value(loss_of), in_dims=(0, 0, 0, 0), randomness="different")
    momentum = {name: torch.zeros_like(p) for name, p in params.items()}
    for step in range(args.steps):
        # Every member has a batch of its own.
        shape = (args.members, args.batch_size, 3, args.size, args.size)
        x = torch.randn(shape, device=device)
        y = torch.randint(args.classes, shape[:2], device=device)
        grads, losses = step_of(params, buffers, x, y)
        with torch.no_grad():
            for name, grad in grads.items():
                momentum[name].mul_(0.9).add_(grad)
                params[name].sub_(momentum[name], alpha=0.05)
        print(f"step {step}: {[round(v, 3) for v in losses.tolist()]}")
    with torch.no_grad():
        together = vmap(predict, in_dims=(0, 0, None))(params, buffers, x[0])
        mean = together.mean(0)
        doubt = -(mean * mean.clamp(min=1e-9).log()).sum(-1)
    print("entropy", doubt.mean().item())


if __name__ == "__main__":
    main()
