"""Translation with a bidirectional LSTM encoder and an LSTM-cell decoder with additive attention;
teacher forcing is decided anew at each word.
"""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, words, emb, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, emb, padding_idx=0)
        self.rnn = nn.LSTM(emb, hidden, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, hidden)

    def forward(self, source, lengths):
        packed = pack_padded_sequence(
            self.embedding(source), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, (h, _) = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.size(1))
        return outputs, torch.tanh(self.fc(torch.cat([h[0], h[1]], dim=1)))


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(3 * hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, state, outputs, mask):
        repeated = state.unsqueeze(1).expand(-1, outputs.size(1), -1)
        energy = torch.tanh(self.attn(torch.cat([repeated, outputs], dim=2)))
        scores = self.v(energy).squeeze(2).masked_fill(~mask, -1e10)
        return F.softmax(scores, dim=1)


class Decoder(nn.Module):
    def __init__(self, words, emb, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, emb, padding_idx=0)
        self.attention = Attention(hidden)
        self.cell = nn.LSTMCell(emb + 2 * hidden, hidden)
        self.fc = nn.Linear(emb + 3 * hidden, words)

    def forward(self, word, state, outputs, mask):
        embedded = self.embedding(word)
        a = self.attention(state[0], outputs, mask).unsqueeze(1)
        context = torch.bmm(a, outputs).squeeze(1)
        h, c = self.cell(torch.cat([embedded, context], dim=1), state)
        return self.fc(torch.cat([h, context, embedded], dim=1)), (h, c)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--source", type=int, default=40)
    parser.add_argument("--target", type=int, default=32)
    parser.add_argument("--words", type=int, default=12000)
    parser.add_argument("--emb", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = "cuda"
    encoder = Encoder(args.words, args.emb, args.hidden).to(device)
    decoder = Decoder(args.words, args.emb, args.hidden).to(device)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters)
    for step in range(args.steps):
        lengths = torch.randint(args.source // 2, args.source + 1, (args.batch_size,))
        mask = torch.arange(args.source)[None] < lengths[:, None]
        source = torch.randint(1, args.words, (args.batch_size, args.source)) * mask
        target = torch.randint(1, args.words, (args.batch_size, args.target)).to(device)
        source, mask = source.to(device), mask.to(device)
        outputs, h = encoder(source, lengths)
        state, word = (h, torch.zeros_like(h)), target[:, 0]
        answers = torch.zeros(args.batch_size, args.target - 1, args.words, device=device)
        for t in range(1, args.target):
            logits, state = decoder(word, state, outputs, mask)
            answers[:, t - 1] = logits
            word = target[:, t] if rng.random() < 0.5 else logits.argmax(1)
        loss = F.cross_entropy(answers.reshape(-1, args.words), target[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
