"""A character LSTM with truncated backpropagation; the state is carried over batches, and a text
is sampled now and then.
"""

import argparse
import string

import torch
from torch import nn

LETTERS = string.printable


class CharRNN(nn.Module):
    def __init__(self, hidden, layers, dropout=0.3):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), 128)
        self.rnn = nn.LSTM(128, hidden, layers, dropout=dropout, batch_first=True)
        self.out = nn.Linear(hidden, len(LETTERS))

    def forward(self, ids, state=None):
        y, state = self.rnn(self.embed(ids), state)
        return self.out(y), state


@torch.no_grad()
def sample(model, start, count, device, temperature=0.8):
    model.eval()
    ids = torch.tensor([[LETTERS.index(c) for c in start]], device=device)
    text, state = start, None
    for _ in range(count):
        logits, state = model(ids, state)
        ids = torch.multinomial((logits[:, -1] / temperature).softmax(-1), 1)
        text += LETTERS[ids.item()]
    model.train()
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--bptt", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--chars", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    text = torch.randint(0, len(LETTERS), (args.batch_size, args.bptt * args.steps + 1))
    model = CharRNN(args.hidden, args.layers).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    state = None
    for step in range(args.steps):
        piece = text[:, step * args.bptt : (step + 1) * args.bptt + 1].to(device)
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(piece[:, :-1], state)
        loss = criterion(logits.transpose(1, 2), piece[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f}")
        if step % 3 == 2:
            print(repr(sample(model, "The ", args.chars, device)))


if __name__ == "__main__":
    main()
