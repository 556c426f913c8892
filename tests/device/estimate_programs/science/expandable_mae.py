"""Masked autoencoding of audio spectrograms, with the allocator's expandable segments."""

import argparse
import os

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = width // 64
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, 64).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)
        x = x + self.out(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class MaskedAutoencoder(nn.Module):
    def __init__(self, patches, patch, width, depth, narrow):
        super().__init__()
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(torch.randn(1, patches, width) * 0.02)
        self.encoder = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.bridge = nn.Linear(width, narrow)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, narrow))
        self.decoder_position = nn.Parameter(torch.randn(1, patches, narrow) * 0.02)
        self.decoder = nn.Sequential(*[Block(narrow) for _ in range(2)])
        self.out = nn.Linear(narrow, patch)

    def forward(self, patches, ratio=0.75):
        b, n, _ = patches.shape
        kept = int(n * (1 - ratio))
        order = torch.rand(b, n, device=patches.device).argsort(dim=1)
        restore = order.argsort(dim=1)
        x = self.embed(patches) + self.position
        x = torch.gather(x, 1, order[:, :kept, None].expand(-1, -1, x.size(-1)))
        x = self.bridge(self.encoder(x))
        x = torch.cat([x, self.mask_token.expand(b, n - kept, -1).to(x.dtype)], dim=1)
        x = torch.gather(x, 1, restore[:, :, None].expand(-1, -1, x.size(-1)))
        made = self.out(self.decoder(x + self.decoder_position))
        hidden = (restore >= kept).float()
        error = (made.float() - patches).square().mean(-1)
        return (error * hidden).sum() / hidden.sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--frames", type=int, default=1024)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    patches = args.frames // 16 * 8
    model = MaskedAutoencoder(patches, 256, args.width, args.depth, args.width * 2 // 3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
    for step in range(args.steps):
        spectrogram = torch.randn(args.batch_size, args.frames, 128)
        tiles = spectrogram.unfold(1, 16, 16).unfold(2, 16, 16).reshape(args.batch_size, -1, 256)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(tiles.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
