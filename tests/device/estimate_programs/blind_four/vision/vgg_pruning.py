"""VGG-16 is pruned by magnitude in rounds, trained a little after each."""

import argparse

import torch
import torch.nn as nn
from torch.nn.utils import prune
from torchvision.models import vgg16_bn


def sparsity(layers):
    zeros = sum((layer.weight == 0).sum().item() for layer in layers)
    return zeros / sum(layer.weight.numel() for layer in layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="after each round")
    args = parser.parse_args()
    torch.manual_seed(14)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = vgg16_bn(weights=None)
    model.avgpool = nn.AdaptiveAvgPool2d(5)
    model.classifier = nn.Sequential(
        nn.Linear(512 * 25, args.hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(args.hidden, args.hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(args.hidden, args.classes),
    )
    model.to(device)
    convs = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for round_ in range(args.rounds):
        prune.global_unstructured(
            [(layer, "weight") for layer in convs + linears[:-1]],
            pruning_method=prune.L1Unstructured,
            amount=0.3,
        )
        for layer in convs[-3:]:
            prune.ln_structured(layer, "weight", amount=0.1, n=2, dim=0)
        if round_ == 0:
            # The parameters are new ones now: weight_orig.
            optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
        for _ in range(args.steps):
            images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
            labels = torch.randint(args.classes, (args.batch_size,), device=device)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"round {round_}: loss {loss.item():.4f} zeros {sparsity(convs + linears):.3f}")
    for layer in convs + linears[:-1]:
        prune.remove(layer, "weight")
    with torch.no_grad():
        print("after", criterion(model.eval()(images), labels).item())


if __name__ == "__main__":
    main()
