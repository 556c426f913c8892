"""YOLOS (a plain ViT with detection tokens) trained with bipartite matching; AdamW, clipping,
fp32.
"""

import argparse

import torch
from transformers import YolosConfig, YolosForObjectDetection


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = YolosConfig(
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        image_size=[args.size, args.size],
        num_detection_tokens=args.tokens,
        num_labels=20,
        use_mid_position_embeddings=True,
    )
    model = YolosForObjectDetection(config).to("cuda")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    for step in range(4):
        pixels = torch.randn(args.batch_size, 3, args.size, args.size).to("cuda")
        labels = []
        for i in range(args.batch_size):
            n = 2 + (step + i) % 5
            centre, extent = torch.rand(n, 2) * 0.5 + 0.25, torch.rand(n, 2) * 0.3 + 0.05
            labels.append(
                {
                    "class_labels": torch.randint(0, 20, (n,)).to("cuda"),
                    "boxes": torch.cat([centre, extent], dim=1).to("cuda"),
                }
            )
        out = model(pixel_values=pixels, labels=labels)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        print(step, {k: round(v.item(), 3) for k, v in out.loss_dict.items()})


if __name__ == "__main__":
    main()
