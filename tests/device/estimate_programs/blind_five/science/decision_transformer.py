"""A decision transformer on offline trajectories: returns, states and actions as one sequence."""

import argparse

import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2Model


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, hidden, layers, context, max_ep_len=1000):
        super().__init__()
        config = GPT2Config(
            vocab_size=1,
            n_embd=hidden,
            n_layer=layers,
            n_head=hidden // 64,
            n_positions=3 * context,
            use_cache=False,
        )
        self.transformer = GPT2Model(config)
        self.embed_timestep = nn.Embedding(max_ep_len, hidden)
        self.embed_return = nn.Linear(1, hidden)
        self.embed_state = nn.Linear(state_dim, hidden)
        self.embed_action = nn.Linear(act_dim, hidden)
        self.embed_ln = nn.LayerNorm(hidden)
        self.predict_action = nn.Sequential(nn.Linear(hidden, act_dim), nn.Tanh())

    def forward(self, states, actions, returns, timesteps, mask):
        n, t = states.shape[:2]
        when = self.embed_timestep(timesteps)
        parts = (self.embed_return(returns), self.embed_state(states), self.embed_action(actions))
        tokens = torch.stack([part + when for part in parts], dim=2).reshape(n, 3 * t, -1)
        mask = mask.repeat_interleave(3, dim=1)
        out = self.transformer(inputs_embeds=self.embed_ln(tokens), attention_mask=mask)
        x = out.last_hidden_state.reshape(n, t, 3, -1)
        return self.predict_action(x[:, :, 1])


def get_batch(n, context, state_dim, act_dim, device):
    states = torch.randn(n, context, state_dim)
    actions = torch.rand(n, context, act_dim) * 2 - 1
    returns = torch.randn(n, context, 1).flip(1).cumsum(1).flip(1)
    start = torch.randint(0, 900, (n, 1))
    timesteps = start + torch.arange(context)
    used = torch.randint(context // 2, context + 1, (n, 1))
    mask = (torch.arange(context) >= context - used).long()
    return tuple(x.to(device) for x in (states, actions, returns, timesteps, mask))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--K", type=int, default=60)
    parser.add_argument("--embed_dim", type=int, default=512)
    parser.add_argument("--n_layer", type=int, default=6)
    parser.add_argument("--iters", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(123)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = DecisionTransformer(17, 6, args.embed_dim, args.n_layer, args.K).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 10, 1))
    for it in range(args.iters):
        states, actions, returns, timesteps, mask = get_batch(
            args.batch_size, args.K, 17, 6, device
        )
        guess = model(states, actions, returns, timesteps, mask)
        keep = mask.reshape(-1) > 0
        loss = torch.mean((guess.reshape(-1, 6)[keep] - actions.reshape(-1, 6)[keep]) ** 2)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        warmup.step()
        print(it, loss.detach().cpu().item())


if __name__ == "__main__":
    main()
