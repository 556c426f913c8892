"""A BiLSTM-CRF tagger: packed sentences, the forward algorithm in a loop, Viterbi in evaluation."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(tags).uniform_(-0.1, 0.1))
        self.move = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))

    def score(self, emissions, tags, mask):
        rows = torch.arange(tags.size(1), device=tags.device)
        total = self.start[tags[0]] + emissions[0, rows, tags[0]]
        for t in range(1, len(tags)):
            step = self.move[tags[t - 1], tags[t]] + emissions[t, rows, tags[t]]
            total = total + step * mask[t]
        last = mask.long().sum(0) - 1
        return total + self.end[tags[last, rows]]

    def normaliser(self, emissions, mask):
        alpha = self.start + emissions[0]
        for t in range(1, len(emissions)):
            scores = alpha.unsqueeze(2) + self.move + emissions[t].unsqueeze(1)
            alpha = torch.where(mask[t].unsqueeze(1), torch.logsumexp(scores, dim=1), alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emissions, tags, mask):
        return (self.normaliser(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def decode(self, emissions):
        alpha, history = self.start + emissions[0], []
        for t in range(1, len(emissions)):
            best, where = (alpha.unsqueeze(2) + self.move).max(dim=1)
            alpha = best + emissions[t]
            history.append(where)
        tag = (alpha + self.end).argmax(1)
        path = [tag]
        for where in reversed(history):
            tag = where.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.append(tag)
        return torch.stack(path[::-1])


class Tagger(nn.Module):
    def __init__(self, words, tags, size, hidden):
        super().__init__()
        self.embed = nn.Embedding(words, size, padding_idx=0)
        self.lstm = nn.LSTM(size, hidden, num_layers=2, bidirectional=True, dropout=0.3)
        self.out = nn.Linear(2 * hidden, tags)
        self.crf = CRF(tags)

    def emissions(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.lstm(packed)[0])
        return self.out(output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--tags", type=int, default=30)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tagger(args.words, args.tags, args.size, args.hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        lengths = torch.randint(args.longest // 2, args.longest + 1, (args.batch_size,))
        ids = pad_sequence([torch.randint(1, args.words, (int(n),)) for n in lengths]).to(device)
        tags = torch.randint(0, args.tags, ids.shape, device=device)
        model.train()
        emissions = model.emissions(ids, lengths)
        loss = model.crf(emissions, tags, ids != 0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(step, loss.item())
    model.eval()
    with torch.no_grad():
        path = model.crf.decode(model.emissions(ids, lengths))
    print("accuracy", (path == tags)[ids != 0].float().mean().item())


if __name__ == "__main__":
    main()
