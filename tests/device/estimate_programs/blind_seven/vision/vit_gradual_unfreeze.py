"""Transfer learning with ViT-B/16: first only a new head on a frozen trunk, then the last blocks,
then everything, each with its own learning rate.
"""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import VisionTransformer


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def train_epoch(model, loader, optimizer, criterion, device, max_steps):
    model.train()
    total, count = 0.0, 0
    for step, (images, labels) in enumerate(loader):
        if step == max_steps:
            break
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(images)
        count += len(images)
    return total / count


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = 0
    for images, labels in loader:
        guess = model(images.to(device)).argmax(dim=1)
        right += (guess.cpu() == labels).sum().item()
    return right / len(loader.dataset)


def count_trainable(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=37)
    parser.add_argument("--images", type=int, default=144)
    parser.add_argument("--unfreeze", type=int, default=4, help="blocks in the second phase")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    images = torch.randn(args.images, 3, args.image_size, args.image_size)
    labels = torch.randint(0, args.classes, (args.images,))
    images += labels.view(-1, 1, 1, 1) / args.classes
    loader = DataLoader(TensorDataset(images, labels), args.batch_size, shuffle=True)
    held_out = DataLoader(TensorDataset(images[:32], labels[:32]), args.batch_size)

    model = VisionTransformer(
        image_size=args.image_size,
        patch_size=16,
        num_layers=args.layers,
        num_heads=args.dim // 64,
        hidden_dim=args.dim,
        mlp_dim=4 * args.dim,
        dropout=0.1,
    )
    # In practice: load_state_dict of an ImageNet checkpoint comes here, before the new head.
    model.heads = nn.Sequential(nn.LayerNorm(args.dim), nn.Linear(args.dim, args.classes))
    model.to(device)
    criterion = nn.CrossEntropyLoss()

    set_trainable(model, False)
    set_trainable(model.heads, True)
    optimizer = torch.optim.AdamW(model.heads.parameters(), lr=1e-3, weight_decay=0.01)
    print(f"phase 1: {count_trainable(model):.2f}M trainable")
    loss = train_epoch(model, loader, optimizer, criterion, device, args.steps)
    print(f"head only: loss {loss:.4f}, accuracy {evaluate(model, held_out, device):.3f}")

    blocks = list(model.encoder.layers)
    for block in blocks[-args.unfreeze :]:
        set_trainable(block, True)
        optimizer.add_param_group({"params": list(block.parameters()), "lr": 1e-4})
    set_trainable(model.encoder.ln, True)
    optimizer.add_param_group({"params": list(model.encoder.ln.parameters()), "lr": 1e-4})
    print(f"phase 2: {count_trainable(model):.2f}M trainable")
    loss = train_epoch(model, loader, optimizer, criterion, device, args.steps)
    print(f"last blocks: loss {loss:.4f}, accuracy {evaluate(model, held_out, device):.3f}")

    rest = [p for p in model.parameters() if not p.requires_grad]
    set_trainable(model, True)
    optimizer.add_param_group({"params": rest, "lr": 1e-5})
    for group in optimizer.param_groups:
        group["lr"] = min(group["lr"], 5e-5)
    print(f"phase 3: {count_trainable(model):.2f}M trainable")
    loss = train_epoch(model, loader, optimizer, criterion, device, args.steps)
    print(f"everything: loss {loss:.4f}, accuracy {evaluate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
