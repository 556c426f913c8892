"""Reading text lines: CRNN with convolutions, LSTMs and CTC, greedy decoding in evaluation."""

import argparse

import torch
import torch.nn as nn


class CRNN(nn.Module):
    def __init__(self, symbols, hidden):
        super().__init__()
        layers, channels = [], 1
        for width, pool in (
            (64, (2, 2)),
            (128, (2, 2)),
            (256, None),
            (256, (2, 1)),
            (512, None),
            (512, (2, 1)),
        ):
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(True),
            ]
            if pool:
                layers.append(nn.MaxPool2d(pool, pool))
            channels = width
        self.cnn = nn.Sequential(*layers)
        self.rnn = nn.LSTM(512 * 2, hidden, num_layers=2, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, symbols + 1)

    def forward(self, x):
        f = self.cnn(x)
        n, c, h, w = f.shape
        f = f.permute(3, 0, 1, 2).reshape(w, n, c * h)
        return self.fc(self.rnn(f)[0]).log_softmax(-1)


def greedy(log_probs):
    best = log_probs.argmax(-1).T.cpu()
    texts = []
    for row in best:
        row = torch.unique_consecutive(row)
        texts.append(row[row != 0].tolist())
    return texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--symbols", type=int, default=90)
    parser.add_argument("--longest", type=int, default=24)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(65)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = CRNN(args.symbols, args.hidden).to(device)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 1, 32, args.width, device=device)
        lengths = torch.randint(5, args.longest + 1, (args.batch_size,))
        targets = torch.randint(1, args.symbols + 1, (int(lengths.sum()),))
        log_probs = model(images)
        steps = torch.full((args.batch_size,), log_probs.size(0), dtype=torch.long)
        loss = criterion(log_probs, targets.to(device), steps.to(device), lengths.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        print(step, loss.item())
    model.eval()
    with torch.no_grad():
        texts = greedy(model(images[:8]))
    print([len(t) for t in texts])


if __name__ == "__main__":
    main()
