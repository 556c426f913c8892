"""Rectified flow in the latents of a frozen autoencoder: image and text tokens joined."""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Sequential):
    def __init__(self, latent=4, c=64):
        super().__init__(
            nn.Conv2d(3, c, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(c, c, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(c, 2 * c, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * c, 4 * c, 4, stride=2, padding=1),
            nn.GroupNorm(8, 4 * c),
            nn.SiLU(),
            nn.Conv2d(4 * c, 2 * latent, 3, padding=1),
        )


class Decoder(nn.Sequential):
    def __init__(self, latent=4, c=64):
        super().__init__(
            nn.Conv2d(latent, 4 * c, 3, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(4 * c, 2 * c, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(2 * c, c, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(c, c, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(c, 3, 3, padding=1),
        )


class Stream(nn.Module):
    """The weights of one kind of token, image or text."""

    def __init__(self, dim):
        super().__init__()
        self.mod = nn.Linear(dim, 6 * dim)
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.q_norm, self.k_norm = nn.RMSNorm(64), nn.RMSNorm(64)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim)
        )

    def before(self, x, cond):
        self.parts = self.mod(F.silu(cond))[:, None].chunk(6, dim=-1)
        shift, scale = self.parts[:2]
        qkv = self.qkv(self.norm1(x) * (1 + scale) + shift)
        q, k, v = qkv.view(*x.shape[:2], 3, -1, 64).permute(2, 0, 3, 1, 4)
        return self.q_norm(q), self.k_norm(k), v

    def after(self, x, y):
        _, _, gate1, shift, scale, gate2 = self.parts
        self.parts = None
        x = x + gate1 * self.out(y)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale) + shift)


class JointBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.image, self.text = Stream(dim), Stream(dim)

    def forward(self, image, text, cond):
        pairs = zip(self.image.before(image, cond), self.text.before(text, cond))
        q, k, v = (torch.cat(pair, dim=2) for pair in pairs)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        n = image.size(1)
        return self.image.after(image, y[:, :n]), self.text.after(text, y[:, n:])


class Transformer(nn.Module):
    def __init__(self, latent, side, dim, depth, words):
        super().__init__()
        self.dim = dim
        self.patch = nn.Conv2d(latent, dim, 2, stride=2)
        self.position = nn.Parameter(torch.randn(1, (side // 2) ** 2, dim) * 0.02)
        self.words = nn.Embedding(words, dim)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(JointBlock(dim) for _ in range(depth))
        self.final = nn.Linear(dim, latent * 4)

    def forward(self, z, t, caption):
        side = z.size(-1) // 2
        image = self.patch(z).flatten(2).transpose(1, 2) + self.position
        text = self.words(caption)
        freqs = torch.exp(-math.log(10000) * torch.arange(128, device=z.device) / 128)
        angles = 1000 * t[:, None] * freqs
        cond = self.time(torch.cat([angles.cos(), angles.sin()], -1)) + text.mean(1)
        for block in self.blocks:
            image, text = block(image, text, cond)
        out = self.final(image).transpose(1, 2).reshape(len(z), -1, side, side)
        return F.pixel_shuffle(out, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--image", type=int, default=256)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=77)
    parser.add_argument("--words", type=int, default=20000)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = Encoder().to(device).eval().requires_grad_(False)
    decoder = Decoder().to(device).eval().requires_grad_(False)
    side = args.image // 8
    model = Transformer(4, side, args.dim, args.depth, args.words).to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.image, args.image, device=device) * 2 - 1
        captions = torch.randint(0, args.words, (args.batch_size, args.tokens), device=device)
        with torch.no_grad():
            mean, logvar = encoder(images).chunk(2, dim=1)
            z1 = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        t = torch.sigmoid(torch.randn(args.batch_size, device=device))
        z0 = torch.randn_like(z1)
        w = t.view(-1, 1, 1, 1)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            velocity = model((1 - w) * z0 + w * z1, t, captions)
        loss = F.mse_loss(velocity.float(), z1 - z0)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.01)
        print(f"step {step} loss {loss.item():.4f}")

    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        z = torch.randn(8, 4, side, side, device=device)
        for i in range(6):  # Heun's method
            t = torch.full((8,), i / 6, device=device)
            v = ema(z, t, captions[:8].repeat(8, 1)[:8])
            v2 = ema(z + v / 6, t + 1 / 6, captions[:8].repeat(8, 1)[:8])
            z = z + (v + v2) / 12
        images = decoder(z).clamp(-1, 1)
    print("images", tuple(images.shape), images.float().mean().item())


if __name__ == "__main__":
    main()
