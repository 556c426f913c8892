"""DETR from transformers with a ResNet backbone made from a config, float32, two learning rates,
clipped gradients.
"""

import argparse

import torch
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig


def make_batch(args, generator, device):
    pixels = torch.randn(args.batch_size, 3, args.height, args.width, generator=generator)
    mask = torch.ones(args.batch_size, args.height, args.width, dtype=torch.long)
    labels = []
    for i in range(args.batch_size):
        # Smaller images are padded on the right.
        used = args.width - 16 * int(torch.randint(0, 4, (1,), generator=generator))
        mask[i, :, used:] = 0
        count = int(torch.randint(1, 12, (1,), generator=generator))
        centre = torch.rand(count, 2, generator=generator) * 0.6 + 0.2
        extent = torch.rand(count, 2, generator=generator) * 0.3 + 0.05
        classes = torch.randint(0, args.classes, (count,), generator=generator)
        boxes = torch.cat([centre, extent], 1).to(device)
        labels.append({"class_labels": classes.to(device), "boxes": boxes})
    return pixels.to(device), mask.to(device), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--classes", type=int, default=91)
    parser.add_argument("--depths", type=int, nargs="+", default=[3, 4, 6, 3])
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    config = DetrConfig(
        use_timm_backbone=False,
        backbone_config=ResNetConfig(depths=args.depths, out_features=["stage4"]),
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_ffn_dim=8 * args.d_model,
        decoder_ffn_dim=8 * args.d_model,
        num_queries=args.queries,
        num_labels=args.classes,
        auxiliary_loss=True,
    )
    model = DetrForObjectDetection(config).to(device)
    model.train()
    body = [p for n, p in model.named_parameters() if "backbone" in n and p.requires_grad]
    rest = [p for n, p in model.named_parameters() if "backbone" not in n and p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": rest}, {"params": body, "lr": 1e-5}], lr=1e-4, weight_decay=1e-4
    )
    generator = torch.Generator().manual_seed(0)
    for step in range(args.steps):
        pixels, mask, labels = make_batch(args, generator, device)
        output = model(pixel_values=pixels, pixel_mask=mask, labels=labels)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        parts = {name: round(float(value), 3) for name, value in list(output.loss_dict.items())[:3]}
        print(f"step {step} loss {output.loss.item():.3f} {parts}")


if __name__ == "__main__":
    main()
