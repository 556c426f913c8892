"""LLaVA: the projector alone, then with the language model; ragged prompts."""

import argparse
import random

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration


def batch_of(args, rng, image_id, patches, device):
    rows = []
    for _ in range(args.batch_size):
        words = torch.tensor([rng.randrange(10, args.vocab - 1) for _ in range(args.words)])
        words = words[: rng.randint(args.words // 2, args.words)]
        rows.append(torch.cat([torch.full((patches,), image_id), words]))
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = (ids != 0).long()
    labels = ids.masked_fill((ids == image_id) | (ids == 0), -100)
    images = torch.randn(args.batch_size, 3, args.size, args.size)
    named = dict(input_ids=ids, attention_mask=mask, labels=labels)
    named["pixel_values"] = images.to(torch.bfloat16)
    return {name: value.to(device) for name, value in named.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--words", type=int, default=192)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vision-width", type=int, default=768)
    parser.add_argument("--vision-layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32064)
    parser.add_argument("--steps", type=int, default=2, help="of each stage")
    args = parser.parse_args()
    torch.manual_seed(80)
    rng = random.Random(80)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vision = CLIPVisionConfig(
        hidden_size=args.vision_width,
        intermediate_size=4 * args.vision_width,
        num_hidden_layers=args.vision_layers,
        num_attention_heads=args.vision_width // 64,
        image_size=args.size,
        patch_size=14,
    )
    text = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=3 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=args.width // 128,
    )
    patches = (args.size // 14) ** 2
    image_id = args.vocab - 1
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=image_id,
        image_token_id=image_id,
        image_seq_length=patches,
    )
    model = LlavaForConditionalGeneration(config).to(device=device, dtype=torch.bfloat16)
    model.requires_grad_(False)
    stages = [("multi_modal_projector",), ("multi_modal_projector", "language_model", "lm_head")]
    for number, names in enumerate(stages):
        trained = [p for n, p in model.named_parameters() if any(part in n for part in names)]
        for p in trained:
            p.requires_grad_(True)
        optimizer = torch.optim.AdamW(trained, lr=1e-3 if number == 0 else 2e-5)
        for step in range(args.steps):
            out = model(**batch_of(args, rng, image_id, patches, device), use_cache=False)
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"stage {number} step {step}: {out.loss.item():.3f}")


if __name__ == "__main__":
    main()
