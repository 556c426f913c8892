"""Direct preference optimisation of a Mistral against a frozen copy: chosen and rejected answers
go through together, padded on the right.
"""

import argparse
import copy

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, MistralConfig


def make_pairs(pairs, prompt, answer, vocab, generator):
    """Twice as many rows as pairs: first the chosen answers, then the rejected ones."""
    prompts = torch.randint(1, vocab, (pairs, prompt), generator=generator).repeat(2, 1)
    answers = torch.randint(1, vocab, (2 * pairs, answer), generator=generator)
    lengths = torch.randint(answer // 2, answer + 1, (2 * pairs, 1), generator=generator)
    real = torch.arange(answer)[None] < lengths
    ids = torch.cat([prompts, answers * real], dim=1)
    mask = torch.cat([torch.ones_like(prompts), real.long()], dim=1)
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :prompt] = -100
    return ids, mask, labels


def log_probs(model, ids, mask, labels):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    labels = labels[:, 1:]
    kept = labels != -100
    per_token = torch.gather(
        logits.float().log_softmax(-1), 2, labels.clamp(min=0).unsqueeze(2)
    ).squeeze(2)
    return (per_token * kept).sum(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--answer", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        sliding_window=None,
    )
    policy = AutoModelForCausalLM.from_config(config).to("cuda", torch.bfloat16)
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    generator = torch.Generator().manual_seed(0)
    for step in range(args.steps):
        batch = make_pairs(args.pairs, args.prompt, args.answer, args.vocab, generator)
        batch = [tensor.to("cuda") for tensor in batch]
        with torch.no_grad():
            before = log_probs(reference, *batch)
        now = log_probs(policy, *batch)
        chosen, rejected = (now - before).chunk(2)
        loss = -F.logsigmoid(args.beta * (chosen - rejected)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        won = (chosen > rejected).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} rewards right {won:.2f}")


if __name__ == "__main__":
    main()
