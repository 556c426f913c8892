"""Reinforcement with a leave-one-out baseline on a Helium model: several sampled answers for each
prompt, a reward by rule, a penalty for leaving the reference model.
"""

import argparse
import copy

import torch
import torch.nn.functional as F
from transformers import HeliumConfig, HeliumForCausalLM


def answer_logprobs(model, sequences, mask, answer_length, temperature):
    logits = model(
        input_ids=sequences, attention_mask=mask, logits_to_keep=answer_length + 1
    ).logits[:, :-1]
    logits = logits.float() / temperature
    answer = sequences[:, -answer_length:]
    chosen = logits.gather(-1, answer.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)


def reward_of(answers, vocab):
    """Prefers tokens of the lower half of the vocabulary and few repetitions."""
    low = (answers < vocab // 2).float().mean(1)
    repeated = (answers[:, 1:] == answers[:, :-1]).float().mean(1)
    return low - repeated


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--prompt-length", type=int, default=256)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=48000)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beta", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device(args.device)
    config = HeliumConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 64,
        head_dim=64,
        max_position_embeddings=args.prompt_length + args.new_tokens,
        pad_token_id=3,
        bos_token_id=1,
        eos_token_id=2,
    )
    policy = HeliumForCausalLM(config).to(device, torch.bfloat16)
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, weight_decay=0.0)

    for number in range(args.rounds):
        prompts = torch.randint(4, args.vocab, (args.prompts, args.prompt_length), device=device)
        prompts = prompts.repeat_interleave(args.samples, dim=0)
        policy.eval()
        with torch.no_grad():
            sequences = policy.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                do_sample=True,
                temperature=0.9,
                top_k=0,
                min_new_tokens=args.new_tokens,
                max_new_tokens=args.new_tokens,
            )
            mask = torch.ones_like(sequences)
            rewards = reward_of(sequences[:, args.prompt_length :], args.vocab)
            old = [
                answer_logprobs(reference, s, m, args.new_tokens, 0.9)
                for s, m in zip(
                    sequences.split(args.micro_batch), mask.split(args.micro_batch), strict=True
                )
            ]
            reference_logprobs = torch.cat(old)

        grouped = rewards.view(args.prompts, args.samples)
        others = (grouped.sum(1, keepdim=True) - grouped) / (args.samples - 1)
        advantages = (grouped - others).flatten()

        policy.train()
        pieces = range(0, len(sequences), args.micro_batch)
        total = 0.0
        for start in pieces:
            part = slice(start, start + args.micro_batch)
            logprobs = answer_logprobs(policy, sequences[part], mask[part], args.new_tokens, 0.9)
            difference = reference_logprobs[part] - logprobs
            divergence = (difference.exp() - difference - 1).sum(1)
            loss = (-advantages[part] * logprobs.sum(1) + args.beta * divergence).mean()
            (loss / len(pieces)).backward()
            total += loss.item() / len(pieces)
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(
            f"round {number} reward {rewards.mean():.3f} loss {total:.3f} norm {norm:.2f} "
            f"spread {F.relu(advantages).max():.3f}"
        )


if __name__ == "__main__":
    main()
