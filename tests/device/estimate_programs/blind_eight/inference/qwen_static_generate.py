"""generate() with a static cache made once and handed over for every request, greedy, fp16."""

import argparse

import torch
from transformers import AutoModelForCausalLM, Qwen2Config, StaticCache


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--cache-length", type=int, default=2048)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--dtype", default="float16")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 5,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    dtype = getattr(torch, args.dtype)
    model = AutoModelForCausalLM.from_config(config).to("cuda", dtype)
    model.eval()
    cache = StaticCache(config=model.config, max_cache_len=args.cache_length)
    for request in range(args.requests):
        ids = torch.randint(1, args.vocab, (args.batch_size, args.prompt), device="cuda")
        cache.reset()
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=cache,
            max_new_tokens=args.new_tokens,
            do_sample=False,
            disable_compile=True,
        )
        print(f"request {request}: {tuple(output.shape)}")


if __name__ == "__main__":
    main()
