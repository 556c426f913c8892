"""Rain maps predicted with a ConvLSTM encoder and forecaster, unrolled in time and checkpointed."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class ConvLSTMCell(nn.Module):
    def __init__(self, c_in, hidden):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(c_in + hidden, 4 * hidden, 3, padding=1)

    def start(self, x):
        return (x.new_zeros(x.size(0), self.hidden, *x.shape[-2:]),) * 2

    def forward(self, x, h, c):
        i, f, g, o = self.conv(torch.cat((x, h), dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Nowcaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.down = nn.Conv2d(1, hidden // 2, 4, stride=2, padding=1)
        self.encoder = nn.ModuleList(
            [ConvLSTMCell(hidden // 2, hidden), ConvLSTMCell(hidden, hidden)]
        )
        self.forecaster = nn.ModuleList(
            [ConvLSTMCell(hidden, hidden), ConvLSTMCell(hidden, hidden)]
        )
        self.up = nn.ConvTranspose2d(hidden, 1, 4, stride=2, padding=1)

    def encode(self, frame, states):
        x, new = F.leaky_relu(self.down(frame)), []
        for cell, (h, c) in zip(self.encoder, states):
            x, c = cell(x, h, c)
            new.append((x, c))
        return new

    def forward(self, past, horizon, save_memory):
        size = past.shape[-2] // 2, past.shape[-1] // 2
        blank = past.new_zeros(past.size(0), 1, *size)
        states = [cell.start(blank) for cell in self.encoder]
        for t in range(past.size(1)):
            if save_memory:
                states = checkpoint(self.encode, past[:, t], states, use_reentrant=False)
            else:
                states = self.encode(past[:, t], states)
        x = states[-1][0]
        frames = []
        for _ in range(horizon):
            for n, cell in enumerate(self.forecaster):
                x, c = cell(x, *states[n])
                states[n] = (x, c)
            frames.append(self.up(x))
        return torch.stack(frames, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--past", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--checkpoint", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(35)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Nowcaster(args.hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        maps = torch.rand(args.batch_size, args.past + args.horizon, 1, args.size, args.size)
        maps = maps.to(device)
        past, future = maps.split((args.past, args.horizon), dim=1)
        guess = model(past, args.horizon, bool(args.checkpoint))
        loss = F.mse_loss(guess, future) + F.l1_loss(guess, future)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 50.0)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
