"""generate() with a sliding-window Mistral in bf16: left padding, dynamic cache, sampling, two
calls.
"""

import argparse

import torch
from transformers import GenerationConfig, MistralConfig, MistralForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=900)
    parser.add_argument("--new-tokens", type=int, default=40)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=max(args.width // 512, 1),
        sliding_window=args.window,
        pad_token_id=0,
    )
    model = MistralForCausalLM(config).to(torch.bfloat16).to("cuda").eval()
    ids = torch.randint(3, args.vocab, (args.batch_size, args.prompt))
    mask = torch.ones_like(ids)
    for row in range(args.batch_size):
        mask[row, : row * args.prompt // (2 * args.batch_size)] = 0
    ids[mask == 0] = 0
    settings = GenerationConfig(
        max_new_tokens=args.new_tokens,
        min_new_tokens=args.new_tokens,
        do_sample=True,
        top_p=0.9,
        temperature=0.7,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    for part in range(2):
        out = model.generate(
            input_ids=ids.to("cuda"), attention_mask=mask.to("cuda"), generation_config=settings
        )
        print(part, out.shape)
        ids, mask = ids[: args.batch_size // 2], mask[: args.batch_size // 2]


if __name__ == "__main__":
    main()
