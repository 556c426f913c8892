"""Decoding written by hand over transformers' StaticCache: prefill by pieces, greedy loop,
cache reset.
"""

import argparse

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--piece", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--longest", type=int, default=2048)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=64000)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=max(args.width // 768, 1),
        tie_word_embeddings=True,
    )
    model = Qwen2ForCausalLM(config).to("cuda", torch.float16).eval()
    cache = StaticCache(config=config, max_cache_len=args.longest)
    for _ in range(2):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.prompt), device="cuda")
        for start in range(0, args.prompt, args.piece):
            piece = ids[:, start : start + args.piece]
            places = torch.arange(start, start + piece.shape[1], device="cuda")
            out = model(
                input_ids=piece,
                position_ids=places[None].expand(args.batch_size, -1),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        answer = [token]
        for step in range(args.new_tokens - 1):
            place = torch.full((args.batch_size, 1), args.prompt + step, device="cuda")
            out = model(input_ids=token, position_ids=place, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            answer.append(token)
        print(torch.cat(answer, dim=1).shape)
        cache.reset()


if __name__ == "__main__":
    main()
