"""Speech to letters: spectrograms by torch.stft, a strided conv front end, packed LSTMs, CTC."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

LETTERS = 29


class Recognizer(nn.Module):
    def __init__(self, bins, channels, hidden, layers):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, channels, (41, 11), stride=(2, 2), padding=(20, 5), bias=False),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(channels, channels, (21, 11), stride=(2, 1), padding=(10, 5), bias=False),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0, 20, inplace=True),
        )
        rows = ((bins + 1) // 2 + 1) // 2
        self.lstm = nn.LSTM(
            channels * rows, hidden, layers, bidirectional=True, batch_first=True, dropout=0.1
        )
        self.norm = nn.LayerNorm(2 * hidden)
        self.out = nn.Linear(2 * hidden, LETTERS)

    def forward(self, spectra, frames):
        h = self.front(spectra.unsqueeze(1))
        frames = (frames + 1) // 2
        h = h.flatten(1, 2).transpose(1, 2)
        packed = pack_padded_sequence(h, frames, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.norm(h)).log_softmax(-1), frames


def spectrum(waves, window, hop):
    s = torch.stft(waves, len(window), hop, window=window, return_complex=True)
    s = torch.log1p(s.abs())
    mean, std = s.mean((1, 2), keepdim=True), s.std((1, 2), keepdim=True)
    return (s - mean) / (std + 1e-5)


def greedy(log_probs, frames):
    texts = []
    for row, n in zip(log_probs.argmax(-1).cpu(), frames):
        letters = row[:n].unique_consecutive()
        texts.append("".join(chr(96 + int(i)) for i in letters if i != 0))
    return texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--fft", type=int, default=320)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=640)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Recognizer(args.fft // 2 + 1, args.channels, args.hidden, args.layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-4, momentum=0.99, nesterov=True)
    window = torch.hamming_window(args.fft, device=device)
    hop = args.fft // 2
    for step in range(args.steps):
        samples = [
            int(16000 * args.seconds * rng.uniform(0.4, 1.0)) for _ in range(args.batch_size)
        ]
        waves = pad_sequence([torch.randn(n) for n in samples], batch_first=True)
        frames = torch.tensor([n // hop + 1 for n in samples])
        sizes = torch.tensor([max(1, n // 16000 * 6) for n in samples])
        letters = torch.randint(1, LETTERS, (int(sizes.sum()),))
        spectra = spectrum(waves.to(device), window, hop)
        log_probs, out_frames = model(spectra, frames)
        loss = F.ctc_loss(
            log_probs.transpose(0, 1), letters.to(device), out_frames, sizes, zero_infinity=True
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 400.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        print(greedy(*model(spectra, frames))[0][:60])


if __name__ == "__main__":
    main()
