"""LoRA on the queries and values of a frozen ViT, with a new head; fp16 autocast and evaluation."""

import argparse

import torch
import torch.nn as nn
from transformers import ViTConfig, ViTForImageClassification


class LoRA(nn.Module):
    def __init__(self, linear, r=8, alpha=16):
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, r, bias=False)
        self.up = nn.Linear(r, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.alpha = alpha / r

    def forward(self, x):
        return self.linear(x) + self.alpha * self.up(self.down(x))


def wrap(module, chosen, r):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name in chosen:
            setattr(module, name, LoRA(child, r))
        else:
            wrap(child, chosen, r)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--classes", type=int, default=101)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=args.size,
        patch_size=16,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_labels=args.classes,
    )
    model = ViTForImageClassification(config)
    for p in model.vit.parameters():
        p.requires_grad = False
    wrap(model.vit, {"query", "value", "q_proj", "v_proj"}, args.rank)
    model = model.to("cuda")
    trained = [p for p in model.parameters() if p.requires_grad]
    print(f"trains {sum(p.numel() for p in trained):,} parameters")
    optimizer = torch.optim.AdamW(trained, lr=5e-3, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    shape = (args.batch_size, 3, args.size, args.size)
    for step in range(args.steps):
        images = torch.randn(shape).to("cuda", non_blocking=True)
        labels = torch.randint(0, args.classes, (args.batch_size,)).to("cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(pixel_values=images, labels=labels)
        scaler.scale(output.loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {output.loss.item():.4f}")
    model.eval()
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        logits = model(pixel_values=torch.randn(shape, device="cuda")).logits
    print("classes seen", logits.argmax(-1).unique().numel())


if __name__ == "__main__":
    main()
