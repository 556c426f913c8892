"""SiglipModel from a config with the sigmoid loss computed by the model; accumulation, fused AdamW,
both towers checkpointed.
"""

import argparse

import torch
from transformers import SiglipConfig, SiglipModel, SiglipTextConfig, SiglipVisionConfig


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    shared = dict(
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
    )
    text = SiglipTextConfig(
        vocab_size=args.vocab,
        max_position_embeddings=args.tokens,
        projection_size=args.width,
        **shared,
    )
    vision = SiglipVisionConfig(image_size=args.size, patch_size=16, **shared)
    model = SiglipModel(SiglipConfig(text_config=text.to_dict(), vision_config=vision.to_dict()))
    model.to("cuda")
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    for update in range(args.updates):
        for _ in range(args.accumulation):
            pixels = torch.randn(args.batch_size, 3, args.size, args.size).to("cuda")
            ids = torch.randint(1, args.vocab, (args.batch_size, args.tokens)).to("cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                output = model(input_ids=ids, pixel_values=pixels, return_loss=True)
            (output.loss / args.accumulation).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update} loss {output.loss.item():.4f}")


if __name__ == "__main__":
    main()
