"""News topics with a bidirectional LSTM over packed sequences, dropout, and test accuracy."""

import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class Topics(nn.Module):
    def __init__(self, vocab, emb, hidden, layers, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, layers, batch_first=True, bidirectional=True, dropout=0.3)
        self.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(2 * hidden, classes))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(
            self.embedding(x), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        pooled = output.sum(1) / lengths.to(output.device).unsqueeze(1)
        return self.fc(pooled)


def collate(rows):
    texts, labels = zip(*rows)
    lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--longest", type=int, default=200)
    parser.add_argument("--vocab", type=int, default=60000)
    parser.add_argument("--emb", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(4)
    rows = []
    for i in range(args.batch_size * args.batches):
        length = int(torch.randint(5, args.longest + 1, (1,)))
        rows.append((torch.randint(1, args.vocab, (length,)), i % 4))
    device = torch.device("cuda")
    model = Topics(args.vocab, args.emb, args.hidden, args.layers, 4).to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(rows, args.batch_size, shuffle=True, collate_fn=collate)
    model.train()
    for x, lengths, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(x, lengths), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"loss {loss.item():.4f}")
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, lengths, y in loader:
            correct += (model(x.to(device), lengths).argmax(1) == y.to(device)).sum().item()
    print("accuracy", correct / len(rows))


if __name__ == "__main__":
    main()
