"""Speech by a transducer: LSTMs, a joint lattice, its loss diagonal by diagonal."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Transducer(nn.Module):
    def __init__(self, bins, hidden, joint, tokens):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(bins, hidden, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(hidden, hidden, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.encoder = nn.LSTM(hidden, hidden, 3, batch_first=True, dropout=0.1)
        self.embed = nn.Embedding(tokens, hidden)
        self.predictor = nn.LSTM(hidden, hidden, 1, batch_first=True)
        self.left, self.right = nn.Linear(hidden, joint), nn.Linear(hidden, joint)
        self.out = nn.Linear(joint, tokens)

    def forward(self, features, labels):
        h, _ = self.encoder(self.front(features.transpose(1, 2)).transpose(1, 2))
        p, _ = self.predictor(self.embed(F.pad(labels, (1, 0))))
        both = torch.tanh(self.left(h).unsqueeze(2) + self.right(p).unsqueeze(1))
        return self.out(both)


def transducer_loss(logits, labels, frames, lengths):
    """The forward variables, one diagonal of the lattice after the other."""
    B, T, U1, _ = logits.shape
    log_probs = logits.log_softmax(-1)
    blank = log_probs[..., 0]
    emit = (
        log_probs[:, :, :-1].gather(-1, labels[:, None, :, None].expand(-1, T, -1, -1)).squeeze(-1)
    )
    impossible = torch.full((B, 1), -1e30, device=logits.device)
    rows = torch.arange(U1, device=logits.device)
    alpha = torch.full((B, U1), -1e30, device=logits.device)
    alpha = torch.cat([torch.zeros_like(alpha[:, :1]), alpha[:, 1:]], 1)
    total = torch.zeros(B, device=logits.device)
    ends = frames + lengths - 1
    for d in range(1, T + U1):
        t = d - 1 - rows
        valid = (t >= 0) & (t < T)
        stay = alpha + blank[:, t.clamp(0, T - 1), rows].masked_fill(~valid, -1e30)
        done = ends + 1 == d
        total = torch.where(done, stay.gather(1, lengths.unsqueeze(1)).squeeze(1), total)
        t_from = (d - 1 - rows[:-1]).clamp(0, T - 1)
        legal = ((d - 1 - rows[:-1]) >= 0) & ((d - 1 - rows[:-1]) < T)
        move = alpha[:, :-1] + emit[:, t_from, rows[:-1]].masked_fill(~legal, -1e30)
        alpha = torch.logaddexp(stay, torch.cat([impossible, move], 1))
    return -total.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--frames", type=int, default=400)
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--bins", type=int, default=80)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--joint", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(9)
    rng = random.Random(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Transducer(args.bins, args.hidden, args.joint, args.tokens).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for step in range(args.steps):
        frames = [
            rng.randint(args.frames // 2, args.frames) // 4 * 4 for _ in range(args.batch_size)
        ]
        lengths = [rng.randint(args.labels // 2, args.labels) for _ in range(args.batch_size)]
        features = torch.randn(args.batch_size, max(frames), args.bins, device=device)
        labels = torch.randint(1, args.tokens, (args.batch_size, max(lengths)), device=device)
        logits = model(features, labels)
        loss = transducer_loss(
            logits,
            labels,
            torch.tensor([n // 4 for n in frames], device=device),
            torch.tensor(lengths, device=device),
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
