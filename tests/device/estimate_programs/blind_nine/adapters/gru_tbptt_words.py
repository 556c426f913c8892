"""A GRU language model with truncated back-propagation: the state is carried between batches."""

import argparse

import torch
from torch import nn


class Words(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, vocab)
        self.decoder.weight = self.encoder.weight

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(output)), hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--vocab", type=int, default=33278)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    text = torch.randint(0, args.vocab, (args.bptt * args.steps + 1, args.batch_size)).cuda()
    model = Words(args.vocab, args.width, args.layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=20)
    criterion = nn.CrossEntropyLoss()
    hidden = torch.zeros(args.layers, args.batch_size, args.width, device="cuda")
    for step in range(args.steps):
        start = step * args.bptt
        x, y = text[start : start + args.bptt], text[start + 1 : start + 1 + args.bptt]
        hidden = hidden.detach()
        model.zero_grad()
        output, hidden = model(x, hidden)
        loss = criterion(output.view(-1, args.vocab), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"{step} {loss.item():.3f}")


if __name__ == "__main__":
    main()
