"""Double DQN with a replay of frames on the CPU, a target network and soft updates."""

import argparse
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Replay:
    def __init__(self, capacity, shape):
        self.frames = np.zeros((capacity, *shape), dtype=np.uint8)
        self.next_frames = np.zeros((capacity, *shape), dtype=np.uint8)
        self.rest = np.zeros((capacity, 3), dtype=np.float32)
        self.capacity, self.at, self.full = capacity, 0, False

    def add(self, frame, next_frame, action, reward, done):
        self.frames[self.at], self.next_frames[self.at] = frame, next_frame
        self.rest[self.at] = action, reward, done
        self.at = (self.at + 1) % self.capacity
        self.full |= self.at == 0

    def sample(self, count, device):
        i = np.random.randint(0, self.capacity if self.full else self.at, count)
        rest = torch.as_tensor(self.rest[i], device=device)
        frames = torch.as_tensor(self.frames[i], device=device)
        return frames, torch.as_tensor(self.next_frames[i], device=device), *rest.unbind(1)


class DuelingQ(nn.Module):
    def __init__(self, frames, size, actions):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(frames, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            width = self.body(torch.zeros(1, frames, size, size)).shape[1]
        self.value = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, 1))
        self.advantage = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        h = self.body(x.float() / 255)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--capacity", type=int, default=3000)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    device = "cuda"
    shape = (4, args.size, args.size)
    online = DuelingQ(4, args.size, 6).to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=6.25e-5, eps=1.5e-4)
    replay = Replay(args.capacity, shape)
    frame = np.random.randint(0, 256, shape, dtype=np.uint8)
    for step in range(args.warmup + args.steps):
        if random.random() < 0.9:
            action = random.randrange(6)
        else:
            with torch.no_grad():
                action = online(torch.as_tensor(frame, device=device)[None]).argmax(1).item()
        following = np.random.randint(0, 256, shape, dtype=np.uint8)
        replay.add(frame, following, action, random.random(), random.random() < 0.01)
        frame = following
        if step < args.warmup:
            continue
        states, next_states, actions, rewards, done = replay.sample(args.batch_size, device)
        with torch.no_grad():
            best = online(next_states).argmax(1, keepdim=True)
            future = target(next_states).gather(1, best).squeeze(1)
            goal = rewards + 0.99 * (1 - done) * future
        q = online(states).gather(1, actions.long().unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), online.parameters()):
                old.lerp_(new, 0.005)
        print(step, loss.item())


if __name__ == "__main__":
    main()
