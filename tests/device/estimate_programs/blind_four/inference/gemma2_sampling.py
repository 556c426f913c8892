"""Gemma-2 samples answers to prompts of several lengths, padded on the left."""

import argparse
import random

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GenerationConfig


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--longest", type=int, default=900)
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--vocab", type=int, default=128000)
    args = parser.parse_args()
    torch.manual_seed(1)
    rng = random.Random(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Gemma2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 192,
        num_key_value_heads=args.width // 384,
        head_dim=128,
        query_pre_attn_scalar=128,
        sliding_window=args.window,
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Gemma2ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    settings = GenerationConfig(
        do_sample=True,
        temperature=0.9,
        top_p=0.95,
        top_k=64,
        repetition_penalty=1.1,
        min_new_tokens=args.new_tokens,
        max_new_tokens=args.new_tokens,
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    for number in range(args.batches):
        lengths = [rng.randint(args.longest // 3, args.longest) for _ in range(args.batch_size)]
        ids = torch.zeros(args.batch_size, max(lengths), dtype=torch.long)
        for row, n in zip(ids, lengths):
            row[-n:] = torch.randint(3, args.vocab, (n,))
        mask = (ids != 0).long()
        with torch.inference_mode():
            out = model.generate(
                ids.to(device), attention_mask=mask.to(device), generation_config=settings
            )
        print(f"batch {number}: {tuple(out.shape)}")


if __name__ == "__main__":
    main()
