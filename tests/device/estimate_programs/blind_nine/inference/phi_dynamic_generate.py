"""Sampling from a Phi-3 in bf16: left-padded prompts, the dynamic cache, several batches."""

import argparse

import torch
from transformers import AutoModelForCausalLM, Phi3Config


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=384)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32064)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Phi3Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        pad_token_id=0,
        eos_token_id=2,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).to("cuda").eval()
    for _ in range(args.batches):
        ids = torch.randint(3, args.vocab, (args.batch_size, args.longest))
        lengths = torch.randint(args.longest // 2, args.longest + 1, (args.batch_size, 1))
        mask = (torch.arange(args.longest) >= args.longest - lengths).long()
        with torch.inference_mode():
            out = model.generate(
                input_ids=(ids * mask).to("cuda"),
                attention_mask=mask.to("cuda"),
                do_sample=True,
                temperature=0.8,
                top_p=0.95,
                min_new_tokens=args.new_tokens,
                max_new_tokens=args.new_tokens,
            )
        print(tuple(out.shape), out[0, -4:].tolist())


if __name__ == "__main__":
    main()
