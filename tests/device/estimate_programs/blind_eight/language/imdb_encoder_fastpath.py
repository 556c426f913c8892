"""Sentiment of reviews with nn.TransformerEncoder and padding masks; evaluation between epochs."""

import argparse
import math

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=2000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Classifier(nn.Module):
    def __init__(self, vocab, d_model, heads, layers, classes=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model, padding_idx=0)
        self.positions = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.fc = nn.Linear(d_model, classes)

    def forward(self, ids):
        padding = ids == 0
        x = self.positions(self.embedding(ids) * math.sqrt(self.embedding.embedding_dim))
        x = self.encoder(x, src_key_padding_mask=padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0).sum(1) / (~padding).sum(1, keepdim=True)
        return self.fc(x)


def make_reviews(count, longest, vocab, seed):
    generator = torch.Generator().manual_seed(seed)
    reviews = []
    for _ in range(count):
        length = int(torch.randint(longest // 4, longest, (1,), generator=generator))
        ids = torch.randint(1, vocab, (length,), generator=generator)
        reviews.append((ids, int(ids[0] % 2)))
    return reviews


def collate(batch):
    ids, labels = zip(*batch)
    return pad_sequence(ids, batch_first=True), torch.tensor(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=25000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = Classifier(args.vocab, args.d_model, args.heads, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    reviews = make_reviews(args.batch_size * args.batches, args.longest, args.vocab, 0)
    held_out = make_reviews(args.batch_size * 2, args.longest, args.vocab, 1)
    train_loader = DataLoader(reviews, args.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(held_out, args.batch_size, collate_fn=collate)
    for epoch in range(args.epochs):
        model.train()
        for ids, labels in train_loader:
            ids, labels = ids.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        model.eval()
        correct = 0
        with torch.no_grad():
            for ids, labels in test_loader:
                guess = model(ids.to(device)).argmax(1)
                correct += (guess == labels.to(device)).sum().item()
        print(f"epoch {epoch} loss {loss.item():.3f} accuracy {correct / len(held_out):.3f}")


if __name__ == "__main__":
    main()
