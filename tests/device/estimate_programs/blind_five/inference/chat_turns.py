"""A chat of several turns with generate(): the dynamic cache is kept from turn to turn."""

import argparse

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chats", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--question", type=int, default=192)
    parser.add_argument("--answer", type=int, default=40)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(20)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = Qwen3Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=3 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=max(1, args.width // 256),
        head_dim=128,
        tie_word_embeddings=True,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Qwen3ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    cache = DynamicCache()
    history = torch.empty(args.chats, 0, dtype=torch.long, device=device)
    for turn in range(args.turns):
        question = torch.randint(10, args.vocab, (args.chats, args.question), device=device)
        history = torch.cat((history, question), dim=1)
        history = model.generate(
            history,
            attention_mask=torch.ones_like(history),
            past_key_values=cache,
            max_new_tokens=args.answer,
            min_new_tokens=args.answer,
            do_sample=True,
            temperature=0.7,
            top_p=0.9,
            top_k=50,
            pad_token_id=0,
        )
        print(f"turn {turn}: {history.size(1)} tokens, cache {cache.get_seq_length()}")


if __name__ == "__main__":
    main()
