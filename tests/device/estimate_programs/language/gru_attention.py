"""Sequence to sequence with GRUs and additive attention, decoder stepped token by token."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, BOS = 0, 1


class Encoder(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.embed = nn.Embedding(words, size, padding_idx=PAD)
        self.rnn = nn.GRU(
            size, size, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2
        )
        self.bridge = nn.Linear(2 * size, size)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(
            self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        output, hidden = self.rnn(packed)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=ids.size(1))
        last = torch.cat([hidden[-2], hidden[-1]], dim=-1)
        return output, torch.tanh(self.bridge(last))


class Decoder(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.embed = nn.Embedding(words, size, padding_idx=PAD)
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(2 * size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)
        self.cell = nn.GRUCell(3 * size, size)
        self.out = nn.Linear(4 * size, words)

    def forward(self, token, hidden, memory, keys, mask):
        scores = self.score(torch.tanh(self.query(hidden).unsqueeze(1) + keys)).squeeze(-1)
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        embedded = self.embed(token)
        hidden = self.cell(torch.cat([embedded, context], dim=-1), hidden)
        return self.out(torch.cat([hidden, context, embedded], dim=-1)), hidden


class Seq2Seq(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.encoder = Encoder(words, size)
        self.decoder = Decoder(words, size)

    def forward(self, source, lengths, target, forcing):
        memory, hidden = self.encoder(source, lengths)
        keys = self.decoder.key(memory)
        mask = source == PAD
        token = torch.full_like(target[:, 0], BOS)
        logits = []
        for t in range(target.size(1)):
            step, hidden = self.decoder(token, hidden, memory, keys, mask)
            logits.append(step)
            token = target[:, t] if random.random() < forcing else step.argmax(-1)
        return torch.stack(logits, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--source", type=int, default=60)
    parser.add_argument("--target", type=int, default=40)
    parser.add_argument("--words", type=int, default=16000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Seq2Seq(args.words, args.size).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for step in range(args.steps):
        lengths = torch.randint(args.source // 2, args.source + 1, (args.batch_size,))
        source = torch.randint(2, args.words, (args.batch_size, args.source))
        source[torch.arange(args.source)[None] >= lengths[:, None]] = PAD
        target = torch.randint(2, args.words, (args.batch_size, args.target))
        source, target = source.to(device), target.to(device)
        logits = model(source, lengths, target, forcing=0.8)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main()
