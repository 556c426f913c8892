"""Separation of two speakers with dual-path transformers (SepFormer): SI-SNR over both orders,
bf16.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class DualPath(nn.Module):
    def __init__(self, width, layers):
        super().__init__()

        def encoder():
            layer = nn.TransformerEncoderLayer(
                width, 8, 4 * width, 0.0, batch_first=True, norm_first=True
            )
            return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

        self.inner, self.outer = encoder(), encoder()
        self.n1, self.n2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)

    def forward(self, x):
        B, C, K, S = x.shape
        y = self.inner(x.permute(0, 3, 2, 1).reshape(B * S, K, C)).view(B, S, K, C)
        x = x + self.n1(y.permute(0, 3, 2, 1))
        y = self.outer(x.permute(0, 2, 3, 1).reshape(B * K, S, C)).view(B, K, S, C)
        return x + self.n2(y.permute(0, 3, 1, 2))


class SepFormer(nn.Module):
    def __init__(self, width, layers, blocks, chunk):
        super().__init__()
        self.chunk = chunk
        self.encode = nn.Conv1d(1, width, 16, 8, bias=False)
        self.first = nn.Sequential(nn.GroupNorm(1, width), nn.Conv1d(width, width, 1))
        self.blocks = nn.ModuleList(DualPath(width, layers) for _ in range(blocks))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv2d(width, 2 * width, 1))
        self.decode = nn.ConvTranspose1d(width, 1, 16, 8, bias=False)

    def forward(self, wave):
        features = F.relu(self.encode(wave[:, None]))
        x = self.first(features)
        B, C, T = x.shape
        hop = self.chunk // 2
        pad = hop + (-T % hop)
        x = F.pad(x, (hop, pad)).unfold(2, self.chunk, hop).transpose(2, 3)
        for block in self.blocks:
            x = block(x)
        x = self.masks(x)
        whole = F.fold(
            x.flatten(0, 0).reshape(B * 2, C * self.chunk, -1),
            (1, (x.shape[3] - 1) * hop + self.chunk),
            (1, self.chunk),
            stride=(1, hop),
        )
        mask = F.relu(whole[:, :, 0, hop : hop + T]).view(B, 2, C, T)
        mixed = (mask * features[:, None]).flatten(0, 1)
        return self.decode(mixed).view(B, 2, -1)


def si_snr(guess, truth):
    guess, truth = guess - guess.mean(-1, keepdim=True), truth - truth.mean(-1, keepdim=True)
    part = (guess * truth).sum(-1, keepdim=True) * truth / truth.pow(2).sum(-1, keepdim=True)
    return 10 * torch.log10(part.pow(2).sum(-1) / ((guess - part).pow(2).sum(-1) + 1e-8) + 1e-8)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--samples", type=int, default=24000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = SepFormer(args.width, args.layers, args.blocks, 250).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-4)
    for step in range(4):
        voices = torch.randn(args.batch_size, 2, args.samples).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(voices.sum(1))
        out = out.float()
        truth = voices[..., : out.shape[-1]]
        straight = si_snr(out, truth).mean(1)
        crossed = si_snr(out, truth.flip(1)).mean(1)
        loss = -torch.maximum(straight, crossed).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
