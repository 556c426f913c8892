"""TimeSformer on short clips, checkpointed, in bf16, with layer-wise learning rates."""

import argparse

import torch
from transformers import TimesformerConfig, TimesformerForVideoClassification


def layered(model, base, decay):
    layers = model.config.num_hidden_layers
    groups = {}
    for name, p in model.named_parameters():
        parts = name.split(".")
        depth = int(parts[parts.index("layer") + 1]) + 1 if "layer" in parts else 0
        if "classifier" in name:
            depth = layers + 1
        groups.setdefault(depth, []).append(p)
    return [
        {"params": params, "lr": base * decay ** (layers + 1 - depth)}
        for depth, params in sorted(groups.items())
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(50)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = TimesformerConfig(
        image_size=args.size,
        num_frames=args.frames,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        attention_type="divided_space_time",
        hidden_dropout_prob=0.1,
        num_labels=args.classes,
    )
    model = TimesformerForVideoClassification(config).to(device)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(layered(model, 5e-4, 0.75), weight_decay=0.05)
    for step in range(args.steps):
        shape = (args.batch_size, args.frames, 3, args.size, args.size)
        clips = torch.randint(0, 256, shape, dtype=torch.uint8).to(device, non_blocking=True)
        labels = torch.randint(args.classes, (args.batch_size,), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            clips = clips.float().sub_(127.5).div_(127.5)
            out = model(pixel_values=clips, labels=labels)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {out.loss.item():.4f}")


if __name__ == "__main__":
    main()
