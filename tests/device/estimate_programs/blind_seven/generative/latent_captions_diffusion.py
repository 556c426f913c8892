"""Train a latent diffusion model on captioned pictures: a frozen autoencoder, a frozen CLIP text
encoder and a U-Net with cross-attention to the tokens. Captions are dropped now and then, so that
the samples can be guided.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import CLIPTextConfig, CLIPTextModel


class Autoencoder(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, width, 4, stride=2, padding=1),
            nn.GroupNorm(8, width),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.GroupNorm(8, 2 * width),
            nn.SiLU(),
            nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1),
            nn.GroupNorm(8, 4 * width),
            nn.SiLU(),
            nn.Conv2d(4 * width, 2 * latent, 1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(latent, 4 * width, 3, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(width, width, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def encode(self, x):
        mean, logvar = self.encoder(x).chunk(2, dim=1)
        return mean + torch.randn_like(mean) * (0.5 * logvar.clamp(-20, 10)).exp()

    def decode(self, z):
        return self.decoder(z).tanh()


class SpatialTransformer(nn.Module):
    def __init__(self, channels, context, heads):
        super().__init__()
        self.norm = nn.GroupNorm(16, channels)
        self.inp = nn.Linear(channels, channels)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(channels) for _ in range(3))
        self.self_attention = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.cross_attention = nn.MultiheadAttention(
            channels, heads, kdim=context, vdim=context, batch_first=True
        )
        self.ff_in = nn.Linear(channels, 8 * channels)
        self.ff_out = nn.Linear(4 * channels, channels)
        self.out = nn.Linear(channels, channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, context, padding):
        b, c, h, w = x.shape
        tokens = self.inp(self.norm(x).flatten(2).transpose(1, 2))
        y = self.norm1(tokens)
        tokens = tokens + self.self_attention(y, y, y, need_weights=False)[0]
        y = self.norm2(tokens)
        tokens = (
            tokens
            + self.cross_attention(
                y, context, context, key_padding_mask=padding, need_weights=False
            )[0]
        )
        value, gate = self.ff_in(self.norm3(tokens)).chunk(2, dim=-1)
        tokens = tokens + self.ff_out(value * F.gelu(gate))
        return x + self.out(tokens).transpose(1, 2).reshape(b, c, h, w)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb):
        super().__init__()
        self.block1 = nn.Sequential(
            nn.GroupNorm(16, c_in), nn.SiLU(), nn.Conv2d(c_in, c_out, 3, padding=1)
        )
        self.emb = nn.Sequential(nn.SiLU(), nn.Linear(emb, c_out))
        self.block2 = nn.Sequential(
            nn.GroupNorm(16, c_out), nn.SiLU(), nn.Conv2d(c_out, c_out, 3, padding=1)
        )
        self.skip = nn.Conv2d(c_in, c_out, 1)

    def forward(self, x, emb):
        h = self.block1(x) + self.emb(emb)[:, :, None, None]
        return (self.skip(x) + self.block2(h)) / math.sqrt(2)


class Denoiser(nn.Module):
    def __init__(self, latent, width, context, heads):
        super().__init__()
        emb = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(latent, width, 3, padding=1)
        sizes = [width, 2 * width, 4 * width]
        self.down_res = nn.ModuleList(
            ResBlock(a, b, emb) for a, b in zip([width, *sizes[:-1]], sizes)
        )
        self.down_att = nn.ModuleList(SpatialTransformer(c, context, heads) for c in sizes)
        self.shrink = nn.ModuleList(nn.Conv2d(c, c, 3, stride=2, padding=1) for c in sizes[:-1])
        self.mid = ResBlock(sizes[-1], sizes[-1], emb)
        self.up_res = nn.ModuleList(
            ResBlock(2 * c, after, emb)
            for c, after in zip(reversed(sizes), [sizes[1], sizes[0], sizes[0]])
        )
        self.up_att = nn.ModuleList(
            SpatialTransformer(c, context, heads) for c in [sizes[1], sizes[0], sizes[0]]
        )
        self.out = nn.Sequential(
            nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, latent, 3, padding=1)
        )

    def forward(self, z, t, context, padding):
        half = self.width // 2
        freq = torch.exp(-9.2 * torch.arange(half, device=z.device) / half)
        angle = t[:, None] * freq
        emb = self.time(torch.cat([angle.sin(), angle.cos()], dim=-1))
        x = self.inp(z)
        skips = []
        for i, (res, att) in enumerate(zip(self.down_res, self.down_att)):
            x = att(res(x, emb), context, padding)
            skips.append(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
        x = self.mid(x, emb)
        for res, att in zip(self.up_res, self.up_att):
            skip = skips.pop()
            if x.shape[-1] != skip.shape[-1]:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = att(res(torch.cat([x, skip], dim=1), emb), context, padding)
        return self.out(x)


def captions(batch, length, vocab, device):
    """Token ids with an end token, padded, and which of them are padding."""
    ids = torch.randint(3, vocab, (batch, length), device=device)
    lengths = torch.randint(4, length + 1, (batch, 1), device=device)
    position = torch.arange(length, device=device)
    ids = ids.masked_fill(position >= lengths, 1).masked_fill(position == lengths - 1, 2)
    return ids, position >= lengths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--latent", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=77)
    parser.add_argument("--vocab", type=int, default=20000)
    parser.add_argument("--text-width", type=int, default=512)
    parser.add_argument("--text-layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    config = CLIPTextConfig(
        vocab_size=args.vocab,
        hidden_size=args.text_width,
        intermediate_size=4 * args.text_width,
        num_hidden_layers=args.text_layers,
        num_attention_heads=8,
        max_position_embeddings=args.tokens,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    text_encoder = CLIPTextModel(config).to(device, dtype=torch.float16).eval()
    text_encoder.requires_grad_(False)
    vae = Autoencoder(64, args.latent).to(device).eval().requires_grad_(False)
    unet = Denoiser(args.latent, args.width, args.text_width, args.heads).to(device)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4, weight_decay=1e-2)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, device=device) ** 2
    alphas = (1 - betas).cumprod(0)

    unet.train()
    for step in range(args.steps):
        pixels = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        ids, padding = captions(args.batch_size, args.tokens, args.vocab, device)
        with torch.no_grad():
            latents = vae.encode(pixels)
            latents = latents / latents.std()
            context = text_encoder(input_ids=ids).last_hidden_state.float()
            context = context.masked_fill(
                torch.rand(args.batch_size, 1, 1, device=device) < 0.1, 0.0
            )
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        a = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(latents)
        noisy = a.sqrt() * latents + (1 - a).sqrt() * noise
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = unet(noisy, t.float(), context, padding)
        loss = F.mse_loss(guess.float(), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")

    unet.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        ids, padding = captions(4, args.tokens, args.vocab, device)
        context = text_encoder(input_ids=ids).last_hidden_state.float()
        both = torch.cat([torch.zeros_like(context), context])
        z = torch.randn(4, args.latent, args.size // 8, args.size // 8, device=device)
        times = list(range(999, -1, -200))
        for i, t in enumerate(times):
            at = torch.full((8,), float(t), device=device)
            empty, given = unet(torch.cat([z, z]), at, both, padding.repeat(2, 1)).chunk(2)
            eps = empty + 5.0 * (given - empty)
            a = alphas[t]
            after = alphas[times[i + 1]] if i + 1 < len(times) else torch.ones_like(a)
            x0 = ((z - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-4, 4)
            z = after.sqrt() * x0 + (1 - after).sqrt() * eps
        pictures = vae.decode(z)
    print("pictures", tuple(pictures.shape), f"{pictures.float().std().item():.4f}")


if __name__ == "__main__":
    main()
