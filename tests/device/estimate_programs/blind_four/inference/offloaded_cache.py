"""Long prompts with a cache that is kept in host memory and brought back layer by layer."""

import argparse

import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--cache", default="offloaded")
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Starcoder2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=max(1, args.width // 256),
        max_position_embeddings=4096,
        sliding_window=None,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = Starcoder2ForCausalLM(config).to(torch.float16).to(device).eval()
    prompt = torch.randint(1, args.vocab, (args.batch_size, args.prompt), device=device)
    named = {} if args.cache == "dynamic" else {"cache_implementation": args.cache}
    with torch.no_grad():
        out = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=args.new_tokens,
            max_new_tokens=args.new_tokens,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **named,
        )
    scores = torch.stack(out.scores, 1).float().log_softmax(-1)
    picked = scores.gather(-1, out.sequences[:, args.prompt :].unsqueeze(-1))
    print("log likelihood", picked.sum().isfinite().item(), tuple(out.sequences.shape))


if __name__ == "__main__":
    main()
