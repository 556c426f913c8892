"""GRPO: Qwen2 samples answers, is rewarded within groups, and stays near a reference."""

import argparse
import copy

import torch
import torch.nn.functional as F
from transformers import Qwen2Config, Qwen2ForCausalLM


def token_log_probs(model, ids, prompt):
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=ids.size(1) - prompt + 1).logits
    log_probs = F.log_softmax(logits[:, :-1].float(), dim=-1)
    return log_probs.gather(-1, ids[:, prompt:].unsqueeze(-1)).squeeze(-1)


def reward(answers, lucky):
    """The share of tokens from a lucky list."""
    return torch.isin(answers, lucky).float().mean(dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--width", type=int, default=896)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=48000)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(17)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=max(1, args.width // 448),
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    policy = Qwen2ForCausalLM(config).to(device)
    reference = copy.deepcopy(policy).to(torch.bfloat16).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
    lucky = torch.randint(args.vocab, (args.vocab // 10,), device=device)
    for step in range(args.steps):
        prompts = torch.randint(1, args.vocab, (args.prompts, args.prompt), device=device)
        policy.eval()
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            ids = policy.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                do_sample=True,
                top_k=50,
                num_return_sequences=args.group,
                max_new_tokens=args.answer,
            )
            old = token_log_probs(policy, ids, args.prompt)
            kept = token_log_probs(reference, ids, args.prompt)
        rewards = reward(ids[:, args.prompt :], lucky).view(args.prompts, args.group)
        centred = rewards - rewards.mean(1, keepdim=True)
        advantage = (centred / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        policy.train()
        for _ in range(args.updates):
            for part in torch.arange(len(ids)).split(len(ids) // 2):
                part = part.to(device)
                with torch.autocast(device.type, torch.bfloat16):
                    new = token_log_probs(policy, ids[part], args.prompt)
                ratio = torch.exp(new - old[part])
                clipped = ratio.clamp(0.8, 1.2)
                gain = torch.minimum(ratio * advantage[part], clipped * advantage[part])
                gap = kept[part] - new
                loss = -(gain - 0.04 * (gap.exp() - gap - 1)).mean()
                (loss / 2).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        print(f"step {step}: reward {rewards.mean().item():.4f} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
