"""QuartzNet for speech: log-mel features on the card, SpecAugment, separable 1D convolutions, CTC.
Batches are padded to their longest utterance; the words are read off greedily at the end.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "-abcdefghijklmnopqrstuvwxyz' "


def mel_filters(bins, mels, rate):
    def to_mel(hz):
        return 2595 * math.log10(1 + hz / 700)

    points = torch.linspace(to_mel(20), to_mel(rate / 2), mels + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, bins)
    rise = (freqs[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    fall = (hz[2:, None] - freqs[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, rate=16000, n_fft=512, hop=160, mels=64):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", mel_filters(n_fft // 2 + 1, mels, rate))

    @torch.no_grad()
    def forward(self, audio, lengths):
        spectrum = torch.stft(
            audio, self.n_fft, self.hop, window=self.window, center=True, return_complex=True
        )
        mel = torch.log(self.filters @ spectrum.abs().pow(2) + 1e-5)
        frames = lengths // self.hop + 1
        valid = torch.arange(mel.shape[-1], device=mel.device) < frames[:, None]
        valid = valid.unsqueeze(1)
        count = frames.view(-1, 1, 1)
        mean = (mel * valid).sum(-1, keepdim=True) / count
        var = ((mel - mean) * valid).pow(2).sum(-1, keepdim=True) / count
        return (mel - mean) / (var.sqrt() + 1e-5) * valid, frames


def spec_augment(mel, bands=2, spans=2, band=12, span=40):
    mel = mel.clone()
    for row in mel:
        for _ in range(bands):
            start = int(torch.randint(0, row.shape[0] - band, (1,)))
            row[start : start + int(torch.randint(0, band, (1,)))] = 0
        for _ in range(spans):
            start = int(torch.randint(0, max(row.shape[1] - span, 1), (1,)))
            row[:, start : start + int(torch.randint(0, span, (1,)))] = 0
    return mel


def separable(c_in, c_out, kernel, stride=1, dilation=1, act=True):
    layers = [
        nn.Conv1d(
            c_in,
            c_in,
            kernel,
            stride=stride,
            dilation=dilation,
            padding=dilation * (kernel - 1) // 2,
            groups=c_in,
            bias=False,
        ),
        nn.Conv1d(c_in, c_out, 1, bias=False),
        nn.BatchNorm1d(c_out, eps=1e-3),
    ]
    return [*layers, nn.ReLU()] if act else layers


class Block(nn.Module):
    def __init__(self, c_in, c_out, kernel, repeat, dropout=0.1):
        super().__init__()
        layers, c = [], c_in
        for i in range(repeat):
            layers += separable(c, c_out, kernel, act=i < repeat - 1)
            c = c_out
        self.body = nn.Sequential(*layers)
        self.shortcut = nn.Sequential(nn.Conv1d(c_in, c_out, 1, bias=False), nn.BatchNorm1d(c_out))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(F.relu(self.body(x) + self.shortcut(x)))


class QuartzNet(nn.Module):
    def __init__(self, mels, width, repeat, groups, letters):
        super().__init__()
        layers = separable(mels, width, 33, stride=2)
        plan = [(width, 33), (width, 39), (2 * width, 51), (2 * width, 63), (2 * width, 75)]
        c = width
        for c_out, kernel in plan:
            for _ in range(groups):
                layers.append(Block(c, c_out, kernel, repeat))
                c = c_out
        layers += separable(c, 2 * width, 87, dilation=2)
        layers += [nn.Conv1d(2 * width, 4 * width, 1, bias=False), nn.BatchNorm1d(4 * width)]
        layers += [nn.ReLU(), nn.Conv1d(4 * width, letters, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, mel):
        return self.layers(mel).permute(2, 0, 1).log_softmax(dim=-1)


def utterances(batch, longest, generator):
    seconds = longest * (0.4 + 0.6 * torch.rand(batch, generator=generator))
    lengths = (seconds * 16000).long()
    audio = torch.randn(batch, int(lengths.max()), generator=generator) * 0.1
    audio *= torch.arange(audio.shape[1]) < lengths[:, None]
    words = (seconds * 8).long().clamp(min=1)
    targets = torch.randint(1, len(ALPHABET), (batch, int(words.max())), generator=generator)
    return audio, lengths, targets, words


def read_greedily(log_probs, frames):
    texts = []
    for row, count in zip(log_probs.argmax(-1).t().tolist(), frames.tolist()):
        letters, last = [], 0
        for code in row[:count]:
            if code not in (0, last):
                letters.append(ALPHABET[code])
            last = code
        texts.append("".join(letters))
    return texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--mels", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda")
    features = LogMel(mels=args.mels).to(device)
    model = QuartzNet(args.mels, args.width, args.repeat, args.groups, len(ALPHABET)).to(device)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.95, 0.5))

    model.train()
    for step in range(args.steps):
        audio, lengths, targets, words = utterances(args.batch_size, args.seconds, generator)
        audio, lengths = audio.to(device), lengths.to(device)
        mel, frames = features(audio, lengths)
        log_probs = model(spec_augment(mel))
        steps = (frames + 1) // 2
        loss = criterion(log_probs, targets.to(device), steps, words.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} frames {mel.shape[-1]} loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        audio, lengths, _, _ = utterances(4, args.seconds, generator)
        mel, frames = features(audio.to(device), lengths.to(device))
        texts = read_greedily(model(mel), (frames + 1) // 2)
    print("read", [text[:20] for text in texts])


if __name__ == "__main__":
    main()
