"""A Llama decodes greedily in a hand-written loop over a static cache."""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache


@torch.no_grad()
def decode(model, prompt, count, length):
    cache = StaticCache(config=model.config, max_cache_len=length)
    position = torch.arange(prompt.shape[1], device=prompt.device)
    logits = model(prompt, past_key_values=cache, cache_position=position).logits[:, -1]
    tokens = [logits.argmax(-1, keepdim=True)]
    position = position[-1:] + 1
    for _ in range(count - 1):
        logits = model(tokens[-1], past_key_values=cache, cache_position=position).logits
        tokens.append(logits[:, -1].argmax(-1, keepdim=True))
        position = position + 1
    return torch.cat(tokens, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=40)
    parser.add_argument("--cache-length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 256,
        dtype=torch.float16,
    )
    model = LlamaForCausalLM(config).half().to("cuda").eval()
    for request in range(2):
        prompt = torch.randint(3, args.vocab, (args.batch_size, args.prompt)).to("cuda")
        tokens = decode(model, prompt, args.new_tokens, args.cache_length)
        print(request, tokens.shape, tokens[0, :4].tolist())


if __name__ == "__main__":
    main()
