"""A word language model with an LSTM: truncated backpropagation, tied weights, SGD."""

import argparse
import math
import tempfile
from pathlib import Path

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="LSTM language model")
parser.add_argument("--words", type=int, default=33278)
parser.add_argument("--emsize", type=int, default=1024)
parser.add_argument("--nlayers", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--bptt", type=int, default=128)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--dropout", type=float, default=0.3)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--seed", type=int, default=1111)
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RNNModel(nn.Module):
    def __init__(self, words, size, layers, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, size)
        self.rnn = nn.LSTM(size, size, layers, dropout=dropout)
        self.decoder = nn.Linear(size, words)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.size, self.layers = size, layers

    def forward(self, ids, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(ids)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        shape = (self.layers, batch, self.size)
        return weight.new_zeros(shape), weight.new_zeros(shape)


def batchify(tokens, columns):
    rows = tokens.size(0) // columns
    return tokens[: rows * columns].view(columns, rows).t().contiguous().to(device)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


tokens = torch.randint(0, args.words, ((args.bptt * args.steps + 1) * args.batch_size,))
train = batchify(tokens, args.batch_size)
valid = batchify(tokens[: 10 * (args.bptt + 1)], 10)
model = RNNModel(args.words, args.emsize, args.nlayers, args.dropout).to(device)
criterion = nn.CrossEntropyLoss()
lr = 20.0

hidden = model.init_hidden(args.batch_size)
model.train()
for i in range(0, args.steps * args.bptt, args.bptt):
    data, targets = get_batch(train, i)
    hidden = tuple(h.detach() for h in hidden)
    model.zero_grad()
    output, hidden = model(data, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    print(f"batch {i // args.bptt} lr {lr:.1f} loss {loss.item():.3f}")

model.eval()
with torch.no_grad():
    data, targets = get_batch(valid, 0)
    output, _ = model(data, model.init_hidden(10))
    loss = criterion(output, targets).item()
print(f"valid loss {loss:.3f} ppl {math.exp(min(loss, 20)):.1f}")
with tempfile.TemporaryDirectory() as folder:
    torch.save(model.state_dict(), Path(folder) / "model.pt")
