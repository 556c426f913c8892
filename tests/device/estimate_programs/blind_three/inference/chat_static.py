"""Two turns of a chat with Qwen2 and generate(): one static cache for both, sampling with top p."""

import argparse

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, StaticCache


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=700)
    parser.add_argument("--reply", type=int, default=40)
    parser.add_argument("--longest", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=100000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=2,
        max_position_embeddings=args.longest,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    with device:
        model = Qwen2ForCausalLM(config)
    model = model.to(torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=args.longest)
    settings = GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_p=0.9,
        top_k=0,
        repetition_penalty=1.1,
        max_new_tokens=args.reply,
        pad_token_id=0,
        disable_compile=True,
    )
    talk = torch.randint(2, args.vocab, (args.batch_size, args.prompt), device=device)
    for turn in range(2):
        talk = model.generate(
            talk,
            attention_mask=torch.ones_like(talk),
            past_key_values=cache,
            generation_config=settings,
        )
        print(f"turn {turn}: {talk.size(1)} tokens")
        question = torch.randint(2, args.vocab, (args.batch_size, args.prompt // 4), device=device)
        talk = torch.cat([talk, question], dim=1)


if __name__ == "__main__":
    main()
