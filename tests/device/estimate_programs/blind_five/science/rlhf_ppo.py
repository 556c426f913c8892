"""PPO on a GPT-2 policy with a value head: sampled answers, a frozen reference, several epochs."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel


class PolicyWithValue(nn.Module):
    def __init__(self, lm):
        super().__init__()
        self.lm = lm
        self.value = nn.Linear(lm.config.n_embd, 1)

    def forward(self, ids):
        out = self.lm(ids, output_hidden_states=True)
        return out.logits, self.value(out.hidden_states[-1].float()).squeeze(-1)


def token_log_probs(logits, ids):
    logp = F.log_softmax(logits[:, :-1].float(), dim=-1)
    return logp.gather(2, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def advantages_of(rewards, values, gamma=1.0, lam=0.95):
    last, found = 0.0, []
    for t in reversed(range(rewards.size(1))):
        following = values[:, t + 1] if t + 1 < rewards.size(1) else 0.0
        last = rewards[:, t] + gamma * following - values[:, t] + gamma * lam * last
        found.append(last)
    return torch.stack(found[::-1], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--answer", type=int, default=40)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(26)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = GPT2Config(
        vocab_size=args.vocab,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    lm = GPT2LMHeadModel(config)
    reference = copy.deepcopy(lm).requires_grad_(False).eval().to(device)
    policy = PolicyWithValue(lm).to(device)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1.4e-5)
    for number in range(args.rounds):
        prompt = torch.randint(0, args.vocab - 1, (args.prompts, args.prompt), device=device)
        with torch.no_grad():
            ids = policy.lm.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=True,
                top_k=0,
                max_new_tokens=args.answer,
                min_new_tokens=args.answer,
                pad_token_id=args.vocab - 1,
            )
            logits, values = policy(ids)
            old = token_log_probs(logits, ids)[:, args.prompt - 1 :]
            base = token_log_probs(reference(ids).logits, ids)[:, args.prompt - 1 :]
            values = values[:, args.prompt - 1 : -1]
            rewards = -0.2 * (old - base)
            rewards[:, -1] += (ids[:, args.prompt :] % 7 == 0).float().mean(dim=1)
            advantage = advantages_of(rewards, values)
            returns = advantage + values
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(2):
            for rows in torch.randperm(args.prompts, device=device).split(args.prompts // 2):
                logits, guess = policy(ids[rows])
                new = token_log_probs(logits, ids[rows])[:, args.prompt - 1 :]
                ratio = (new - old[rows]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                loss = -torch.minimum(ratio * advantage[rows], clipped * advantage[rows]).mean()
                loss = loss + 0.1 * F.mse_loss(guess[:, args.prompt - 1 : -1], returns[rows])
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
        print(number, loss.item(), rewards.sum(1).mean().item())


if __name__ == "__main__":
    main()
