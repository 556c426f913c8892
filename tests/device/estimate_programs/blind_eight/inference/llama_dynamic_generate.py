"""Answers to batches of prompts with generate() and the growing cache: left padding, sampling with
top-p, bf16 weights; the batches have different lengths.
"""

import argparse
import random

import torch
from transformers import AutoModelForCausalLM, LlamaConfig


def left_pad(rows, pad):
    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 64,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.eval()
    for number in range(args.batches):
        rows = [
            [
                rng.randrange(3, args.vocab)
                for _ in range(rng.randint(args.longest // 4, args.longest))
            ]
            for _ in range(args.batch_size)
        ]
        ids, mask = left_pad(rows, 0)
        with torch.inference_mode():
            answer = model.generate(
                input_ids=ids.to("cuda"),
                attention_mask=mask.to("cuda"),
                max_new_tokens=args.new_tokens,
                do_sample=True,
                temperature=0.7,
                top_p=0.9,
            )
        print(f"batch {number}: {tuple(ids.shape)} -> {tuple(answer.shape)}")


if __name__ == "__main__":
    main()
