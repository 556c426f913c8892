"""A bidirectional LSTM tagger with character features; sentences are sorted and packed."""

import argparse
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.optim.lr_scheduler import StepLR


class Tagger(nn.Module):
    def __init__(self, n_words, n_chars, n_tags, word_dim, char_dim, hidden, layers):
        super().__init__()
        self.words = nn.Embedding(n_words, word_dim, padding_idx=0)
        self.chars = nn.Embedding(n_chars, char_dim, padding_idx=0)
        self.char_conv = nn.Conv1d(char_dim, 2 * char_dim, kernel_size=3, padding=1)
        self.lstm = nn.LSTM(
            word_dim + 2 * char_dim,
            hidden,
            num_layers=layers,
            bidirectional=True,
            dropout=0.33,
            batch_first=True,
        )
        self.drop = nn.Dropout(0.33)
        self.out = nn.Linear(2 * hidden, n_tags)

    def forward(self, words, chars, lengths):
        B, T, L = chars.shape
        c = self.chars(chars).view(B * T, L, -1).transpose(1, 2)
        c = torch.relu(self.char_conv(c)).max(dim=2)[0].view(B, T, -1)
        x = self.drop(torch.cat([self.words(words), c], dim=-1))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        h, _ = self.lstm(packed)
        h, _ = pad_packed_sequence(h, batch_first=True)
        return self.out(self.drop(h))


def make_batches(n, batch_size, longest, n_words, n_chars, n_tags, word_len=12):
    batches = []
    for _ in range(n):
        lengths = [random.randint(longest // 5, longest) for _ in range(batch_size)]
        words = pad_sequence([torch.randint(1, n_words, (k,)) for k in lengths], batch_first=True)
        tags = pad_sequence(
            [torch.randint(0, n_tags, (k,)) for k in lengths], batch_first=True, padding_value=-1
        )
        chars = torch.randint(1, n_chars, (batch_size, words.size(1), word_len))
        chars[words == 0] = 0
        batches.append((words, chars, tags, torch.tensor(lengths)))
    return batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=160)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--hidden", type=int, default=600)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--n-words", type=int, default=80000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    random.seed(5)
    torch.manual_seed(5)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    n_chars, n_tags = 120, 45
    model = Tagger(args.n_words, n_chars, n_tags, 300, 50, args.hidden, args.layers).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=-1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.9))
    scheduler = StepLR(optimizer, step_size=1, gamma=0.75)
    sizes = (args.batch_size, args.longest, args.n_words, n_chars, n_tags)
    train = make_batches(args.batches, *sizes)
    dev = make_batches(2, *sizes)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for words, chars, tags, lengths in train:
            words, chars, tags = words.to(device), chars.to(device), tags.to(device)
            optimizer.zero_grad()
            scores = model(words, chars, lengths)
            loss = criterion(scores.reshape(-1, n_tags), tags.reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()

        model.eval()
        right = seen = 0
        with torch.no_grad():
            for words, chars, tags, lengths in dev:
                guess = model(words.to(device), chars.to(device), lengths).argmax(-1).cpu()
                keep = tags != -1
                right += (guess[keep] == tags[keep]).sum().item()
                seen += keep.sum().item()
        print(f"epoch {epoch}: loss {total / len(train):.4f}, accuracy {right / seen:.4f}")
    torch.save(model.state_dict(), "/dev/null")


if __name__ == "__main__":
    main()
