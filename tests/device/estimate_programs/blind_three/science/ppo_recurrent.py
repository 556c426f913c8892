"""PPO with a convolutional LSTM policy on grid worlds stepped on the GPU, in sequences."""

import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical


class Worlds:
    """An agent looks for food in a square; it sees only what is near it."""

    def __init__(self, n, side, view, device):
        self.n, self.side, self.view, self.device = n, side, view, device
        self.agent = torch.randint(side, (n, 2), device=device)
        self.food = torch.randint(side, (n, 2), device=device)
        self.moves = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]], device=device)

    def observe(self):
        span = torch.arange(self.view, device=self.device) - self.view // 2
        ys = self.agent[:, 0, None, None] + span[None, :, None]
        xs = self.agent[:, 1, None, None] + span[None, None, :]
        wall = (ys < 0) | (ys >= self.side) | (xs < 0) | (xs >= self.side)
        food = (ys == self.food[:, 0, None, None]) & (xs == self.food[:, 1, None, None])
        return torch.stack([wall, food, ~wall], 1).float()

    def step(self, action):
        self.agent = (self.agent + self.moves[action]).clamp(0, self.side - 1)
        found = (self.agent == self.food).all(1)
        fresh = torch.randint(self.side, (self.n, 2), device=self.device)
        self.food = torch.where(found[:, None], fresh, self.food)
        return found.float() - 0.01, found


class Policy(nn.Module):
    def __init__(self, view, channels, hidden):
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ELU(),
            nn.Flatten(),
        )
        self.lstm = nn.LSTM(channels * ((view + 1) // 2) ** 2, hidden)
        self.actor, self.critic = nn.Linear(hidden, 4), nn.Linear(hidden, 1)

    def forward(self, seen, state):
        T, B = seen.shape[:2]
        h = self.see(seen.flatten(0, 1)).view(T, B, -1)
        h, state = self.lstm(h, state)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1), state


def advantages(rewards, values, done, last, gamma=0.99, trace=0.95):
    result, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        after = values[t + 1] if t + 1 < len(rewards) else last
        keep = 1 - done[t]
        running = rewards[t] + gamma * after * keep - values[t] + gamma * trace * keep * running
        result[t] = running
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=2048)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--view", type=int, default=11)
    parser.add_argument("--channels", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    worlds = Worlds(args.worlds, 15, args.view, device)
    policy = Policy(args.view, args.channels, args.hidden).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, eps=1e-5)
    state = tuple(torch.zeros(1, args.worlds, args.hidden, device=device) for _ in range(2))
    for round_ in range(args.rounds):
        start = state
        steps = []
        with torch.no_grad():
            for _ in range(args.length):
                seen = worlds.observe()
                choice, value, state = policy(seen[None], state)
                action = choice.sample()
                reward, done = worlds.step(action[0])
                steps.append(
                    (seen, action[0], choice.log_prob(action)[0], value[0], reward, done.float())
                )
            last = policy(worlds.observe()[None], state)[1][0]
        seen, action, old, values, rewards, done = (torch.stack(x) for x in zip(*steps))
        gain = advantages(rewards, values, done, last)
        returns = gain + values
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        for _ in range(args.epochs):
            for part in torch.randperm(args.worlds, device=device).chunk(args.parts):
                begin = tuple(s[:, part].contiguous() for s in start)
                choice, value, _ = policy(seen[:, part], begin)
                ratio = (choice.log_prob(action[:, part]) - old[:, part]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                surrogate = torch.min(ratio * gain[:, part], clipped * gain[:, part]).mean()
                value_loss = (value - returns[:, part]).square().mean()
                loss = -surrogate + 0.5 * value_loss - 0.01 * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
        print(f"round {round_}: reward {rewards.mean().item():.4f}, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
