"""A ViT from timm: first a linear probe on frozen features, then the last blocks train too."""

import argparse

import timm
import torch
import torch.nn.functional as F


def batches(count, batch_size, size, classes, device):
    g = torch.Generator().manual_seed(2)
    for _ in range(count):
        images = torch.randn(batch_size, 3, size, size, generator=g)
        labels = torch.randint(classes, (batch_size,), generator=g)
        yield images.to(device), labels.to(device)


def train(model, parameters, lr, data):
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    for images, labels in data:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"  loss {loss.item():.4f}")


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    right = total = 0
    for images, labels in data:
        right += (model(images).argmax(1) == labels).sum().item()
        total += labels.numel()
    model.train()
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=37)
    parser.add_argument("--unfreeze", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(50)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = timm.create_model(args.model, num_classes=args.classes, img_size=args.size).to(device)
    sizes = (args.steps, args.batch_size, args.size, args.classes, device)
    for p in model.parameters():
        p.requires_grad = False
    for p in model.head.parameters():
        p.requires_grad = True
    print("probe")
    train(model, model.head.parameters(), 1e-2, batches(*sizes))
    print("accuracy", evaluate(model, batches(1, *sizes[1:])))
    for block in model.blocks[-args.unfreeze :]:
        block.requires_grad_(True)
    model.norm.requires_grad_(True)
    print("last", args.unfreeze, "blocks")
    train(model, [p for p in model.parameters() if p.requires_grad], 1e-4, batches(*sizes))
    print("accuracy", evaluate(model, batches(1, *sizes[1:])))


if __name__ == "__main__":
    main()
