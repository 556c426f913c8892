"""Direct preference optimization of a Phi against a frozen copy: pairs joined, answers masked."""

import argparse
import copy
import random

import torch
import torch.nn.functional as F
from transformers import PhiConfig, PhiForCausalLM


def make_pairs(n, prompt, answer, vocab, seed):
    rng = random.Random(seed)

    def tokens(longest):
        return [rng.randrange(2, vocab) for _ in range(rng.randint(longest // 2, longest))]

    return [(tokens(prompt), tokens(answer), tokens(answer)) for _ in range(n)]


def collate(pairs, device):
    """Chosen answers in the upper half of the batch, rejected ones in the lower half."""
    rows = [(p, chosen) for p, chosen, _ in pairs] + [(p, rejected) for p, _, rejected in pairs]
    longest = max(len(p) + len(a) for p, a in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    answer = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, (p, a) in enumerate(rows):
        ids[i, : len(p) + len(a)] = torch.tensor(p + a)
        mask[i, : len(p) + len(a)] = 1
        answer[i, len(p) : len(p) + len(a)] = True
    return ids.to(device), mask.to(device), answer.to(device)


def answer_log_probs(model, ids, mask, answer):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    chosen = logits.float().log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    return (chosen * answer[:, 1:]).sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--answer", type=int, default=384)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=51200)
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = PhiConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        partial_rotary_factor=0.5,
        resid_pdrop=0.0,
    )
    policy = PhiForCausalLM(config).to(device, torch.bfloat16)
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    data = make_pairs(args.steps * args.pairs, args.prompt, args.answer, args.vocab, seed=5)

    policy.train()
    for step in range(args.steps):
        batch = collate(data[step * args.pairs : (step + 1) * args.pairs], device)
        log_probs = answer_log_probs(policy, *batch)
        with torch.no_grad():
            baseline = answer_log_probs(reference, *batch)
        rewards = args.beta * (log_probs - baseline)
        better, worse = rewards.chunk(2)
        loss = -F.logsigmoid(better - worse).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        rate.step()
        right = (better > worse).float().mean()
        print(f"step {step}: loss {loss.item():.4f}, right {right.item():.2f}")


if __name__ == "__main__":
    main()
