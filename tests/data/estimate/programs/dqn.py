"""Deep Q-learning from pixels: a replay buffer, a target network, a small game of our own."""

import argparse
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Catch:
    """A ball falls over a grid of pixels; the paddle must be under it."""

    def __init__(self, size, rng):
        self.size, self.rng = size, rng

    def reset(self):
        self.ball = [0, self.rng.randrange(self.size)]
        self.paddle = self.size // 2
        return self.frame()

    def frame(self):
        image = np.zeros((self.size, self.size), dtype=np.uint8)
        image[self.ball[0], self.ball[1]] = 255
        image[-1, max(0, self.paddle - 4) : self.paddle + 5] = 255
        return image

    def step(self, action):
        self.paddle = min(max(self.paddle + 3 * (action - 1), 0), self.size - 1)
        self.ball[0] += 4
        done = self.ball[0] >= self.size - 1
        self.ball[0] = min(self.ball[0], self.size - 1)
        reward = (1.0 if abs(self.paddle - self.ball[1]) <= 4 else -1.0) if done else 0.0
        return self.frame(), reward, done


class QNetwork(nn.Module):
    def __init__(self, frames, size, actions, width):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(frames, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        with torch.no_grad():
            flat = self.convs(torch.zeros(1, frames, size, size)).size(1)
        self.value = nn.Sequential(nn.Linear(flat, width), nn.ReLU(), nn.Linear(width, 1))
        self.advantage = nn.Sequential(nn.Linear(flat, width), nn.ReLU(), nn.Linear(width, actions))

    def forward(self, x):
        h = self.convs(x.float() / 255)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(dim=1, keepdim=True)


def learn(online, target, optimizer, memory, args, device):
    batch = random.sample(memory, args.batch_size)
    states, actions, rewards, following, done = zip(*batch)
    states = torch.from_numpy(np.stack(states)).to(device)
    following = torch.from_numpy(np.stack(following)).to(device)
    actions = torch.tensor(actions, device=device)
    rewards = torch.tensor(rewards, device=device)
    done = torch.tensor(done, dtype=torch.float32, device=device)
    with torch.no_grad():
        best = online(following).argmax(dim=1, keepdim=True)
        goal = rewards + args.gamma * (1 - done) * target(following).gather(1, best).squeeze(1)
    q = online(states).gather(1, actions[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--frames", type=int, default=700)
    parser.add_argument("--learn-every", type=int, default=40)
    parser.add_argument("--gamma", type=float, default=0.99)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    online = QNetwork(4, args.size, 3, args.width).to(device)
    target = QNetwork(4, args.size, 3, args.width).to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=2.5e-4, eps=1e-4)
    game, memory = Catch(args.size, random.Random(1)), deque(maxlen=50_000)
    frames = deque([game.reset()] * 4, maxlen=4)
    updates = 0
    for frame in range(args.frames):
        state = np.stack(frames)
        if random.random() < max(0.1, 1 - frame / args.frames):
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = online(torch.from_numpy(state)[None].to(device)).argmax().item()
        image, reward, done = game.step(action)
        frames.append(image)
        memory.append((state, action, reward, np.stack(frames), done))
        if done:
            frames = deque([game.reset()] * 4, maxlen=4)
        if len(memory) >= args.batch_size and frame % args.learn_every == 0:
            loss = learn(online, target, optimizer, memory, args, device)
            updates += 1
            print(f"frame {frame} loss {loss:.4f}")
            if updates % 3 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
