"""Speech recognition with torchaudio's Conformer, log-mel features, SpecAugment and CTC."""

import argparse

import torch
import torchaudio
from torch import nn


class Recognizer(nn.Module):
    def __init__(self, letters, width, layers, mels=80):
        super().__init__()
        self.mel = torchaudio.transforms.MelSpectrogram(16000, 512, hop_length=160, n_mels=mels)
        self.augment = nn.Sequential(
            torchaudio.transforms.FrequencyMasking(27), torchaudio.transforms.TimeMasking(40)
        )
        self.subsample = nn.Sequential(
            nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU()
        )
        self.project = nn.Linear(64 * (mels // 4), width)
        self.conformer = torchaudio.models.Conformer(
            input_dim=width,
            num_heads=4,
            ffn_dim=4 * width,
            num_layers=layers,
            depthwise_conv_kernel_size=31,
            dropout=0.1,
        )
        self.out = nn.Linear(width, letters)

    def forward(self, waves, lengths):
        with torch.no_grad():
            features = (self.mel(waves) + 1e-6).log()
            if self.training:
                features = self.augment(features)
        lengths = lengths // 160 + 1
        x = self.subsample(features.unsqueeze(1))
        x = self.project(x.permute(0, 3, 1, 2).flatten(2))
        for _ in range(2):
            lengths = (lengths + 1) // 2
        x, lengths = self.conformer(x, lengths)
        return self.out(x).log_softmax(-1), lengths


def batch(args, device):
    samples = int(args.seconds * 16000)
    lengths = torch.randint(samples // 2, samples + 1, (args.batch_size,))
    lengths[0] = samples
    waves = torch.randn(args.batch_size, samples)
    waves[torch.arange(samples)[None] >= lengths[:, None]] = 0
    targets = torch.randint(1, args.letters, (args.batch_size, 40))
    target_lengths = torch.randint(10, 41, (args.batch_size,))
    return waves.to(device), lengths.to(device), targets.to(device), target_lengths


def greedy(log_probabilities, length):
    best = log_probabilities[:length].argmax(-1).tolist()
    return [a for a, b in zip(best, [0, *best]) if a != b and a != 0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--letters", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Recognizer(args.letters, args.width, args.layers).to(device)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for step in range(args.steps):
        waves, lengths, targets, target_lengths = batch(args, device)
        output, output_lengths = model(waves, lengths)
        loss = criterion(output.transpose(0, 1), targets, output_lengths.cpu(), target_lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        waves, lengths, _, _ = batch(args, device)
        output, output_lengths = model(waves, lengths)
    print("heard:", greedy(output[0].cpu(), int(output_lengths[0]))[:10])


if __name__ == "__main__":
    main()
