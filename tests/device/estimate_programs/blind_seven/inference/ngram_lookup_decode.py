"""Decoding that guesses the next tokens by looking them up in the text so far: guesses are verified
in one pass of an OLMo decoder and the cache is cut back to what was accepted.
"""

import argparse
import time

import torch
from transformers import DynamicCache, OlmoConfig, OlmoForCausalLM


def look_up(tokens, ngram, guesses):
    """What followed the latest earlier occurrence of the last tokens."""
    for n in range(ngram, 0, -1):
        tail = tokens[-n:]
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == tail:
                return tokens[start + n : start + n + guesses]
    return []


@torch.inference_mode()
def decode(model, prompt, new_tokens, ngram, guesses, device):
    cache = DynamicCache(config=model.config)
    tokens = list(prompt)
    ids = torch.tensor([tokens], device=device)
    logits = model(input_ids=ids, past_key_values=cache, logits_to_keep=1).logits
    tokens.append(int(logits[0, -1].argmax()))
    passes, accepted = 1, 0
    while len(tokens) < len(prompt) + new_tokens:
        draft = look_up(tokens, ngram, guesses)
        # The cache holds all tokens but the last one; a negative crop removes wrong guesses.
        ids = torch.tensor([[tokens[-1], *draft]], device=device)
        logits = model(input_ids=ids, past_key_values=cache).logits[0]
        choices = logits.argmax(-1).tolist()
        right = 0
        while right < len(draft) and draft[right] == choices[right]:
            right += 1
        tokens += [*draft[:right], choices[right]]
        cache.crop(right - len(draft))
        passes += 1
        accepted += right
    return tokens[len(prompt) :], passes, accepted


def repetitive_prompt(length, vocab, generator):
    phrases = torch.randint(5, vocab, (8, 12), generator=generator)
    order = torch.randint(0, 8, (length // 12 + 1,), generator=generator)
    return phrases[order].flatten()[:length].tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=3072)
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--ngram", type=int, default=3)
    parser.add_argument("--guesses", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=50304)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    config = OlmoConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=args.prompt * 2,
        tie_word_embeddings=True,
    )
    with torch.device(args.device):
        model = OlmoForCausalLM(config)
    model = model.to(torch.bfloat16).eval()

    for number in range(args.requests):
        length = args.prompt * (number + 1) // args.requests
        prompt = repetitive_prompt(length, args.vocab, generator)
        began = time.perf_counter()
        answer, passes, accepted = decode(
            model, prompt, args.new_tokens, args.ngram, args.guesses, args.device
        )
        print(
            f"request {number}: prompt {length}, {len(answer)} tokens in {passes} passes, "
            f"{accepted} guesses accepted, {time.perf_counter() - began:.2f} s"
        )


if __name__ == "__main__":
    main()
