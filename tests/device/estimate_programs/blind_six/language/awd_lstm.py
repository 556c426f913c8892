"""A word model with dropped recurrent weights and locked dropout; state kept between pieces of
the text.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LockedDropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        mask = x.new_empty(1, x.shape[1], x.shape[2]).bernoulli_(1 - self.p) / (1 - self.p)
        return x * mask


class WeightDropCell(nn.Module):
    """One LSTM layer as a loop over cells; its recurrent weight is dropped once for each piece."""

    def __init__(self, n_in, n_out, p):
        super().__init__()
        self.inputs = nn.Linear(n_in, 4 * n_out)
        self.recurrent = nn.Parameter(torch.randn(4 * n_out, n_out) / math.sqrt(n_out))
        self.p = p

    def forward(self, x, state):
        weight = F.dropout(self.recurrent, self.p, self.training)
        gates = self.inputs(x)
        h, c = state
        outputs = []
        for t in range(len(x)):
            i, f, g, o = (gates[t] + h @ weight.T).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), (h, c)


class Model(nn.Module):
    def __init__(self, words, size, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        sizes = [size] + [hidden] * (layers - 1) + [size]
        self.layers = nn.ModuleList(WeightDropCell(a, b, 0.5) for a, b in zip(sizes, sizes[1:]))
        self.locked = LockedDropout(0.3)
        self.bias = nn.Parameter(torch.zeros(words))

    def start(self, batch):
        zeros = [self.bias.new_zeros(batch, cell.recurrent.shape[1]) for cell in self.layers]
        return [(z, z.clone()) for z in zeros]

    def forward(self, ids, states):
        x = self.locked(self.embed(ids))
        new = []
        for cell, state in zip(self.layers, states):
            x, state = cell(x, state)
            x = self.locked(x)
            new.append(state)
        return F.linear(x, self.embed.weight, self.bias), new, x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--words", type=int, default=33000)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=1150)
    args = parser.parse_args()
    torch.manual_seed(141)
    model = Model(args.words, args.size, args.hidden, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=30, weight_decay=1.2e-6)
    text = torch.randint(args.words, (args.bptt * 6, args.batch_size)).cuda()
    states = model.start(args.batch_size)
    for i in range(0, 4 * args.bptt, args.bptt):
        states = [(h.detach(), c.detach()) for h, c in states]
        logits, states, last = model(text[i : i + args.bptt], states)
        targets = text[i + 1 : i + 1 + args.bptt]
        loss = F.cross_entropy(logits.view(-1, args.words), targets.reshape(-1))
        loss = loss + 2 * last.pow(2).mean() + (last[1:] - last[:-1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(i, loss.item())
    model.eval()
    with torch.no_grad():
        logits, *_ = model(text[: args.bptt], model.start(args.batch_size))
    print(logits.shape)


if __name__ == "__main__":
    main()
