"""Unconditional DDPM: a U-Net with attention at low resolutions, a copy of the weights averaged by
hand, samples drawn from the copy.
"""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        emb = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        emb = t[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, time_dim, groups=8):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_dim, dim_out * 2))
        self.proj1 = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm1 = nn.GroupNorm(groups, dim_out)
        self.proj2 = nn.Conv2d(dim_out, dim_out, 3, padding=1)
        self.norm2 = nn.GroupNorm(groups, dim_out)
        self.res = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.norm1(self.proj1(x)) * (scale + 1) + shift)
        return F.silu(self.norm2(self.proj2(h))) + self.res(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=32):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.GroupNorm(1, dim)
        self.to_qkv = nn.Conv2d(dim, heads * dim_head * 3, 1, bias=False)
        self.to_out = nn.Conv2d(heads * dim_head, dim, 1)

    def forward(self, x):
        b, _, h, w = x.shape
        q, k, v = self.to_qkv(self.norm(x)).view(b, 3, self.heads, -1, h * w).unbind(1)
        q, k = q.softmax(dim=-2) * self.scale, k.softmax(dim=-1)
        context = torch.einsum("bhdn,bhen->bhde", k, v)
        out = torch.einsum("bhde,bhdn->bhen", context, q)
        return x + self.to_out(out.reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, dim, mults):
        super().__init__()
        time_dim = dim * 4
        self.time = nn.Sequential(
            SinusoidalPosEmb(dim),
            nn.Linear(dim, time_dim),
            nn.GELU(),
            nn.Linear(time_dim, time_dim),
        )
        self.init = nn.Conv2d(3, dim, 7, padding=3)
        dims = [dim, *(dim * m for m in mults)]
        pairs = list(zip(dims[:-1], dims[1:]))
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        for a, b in pairs:
            parts = [ResnetBlock(a, a, time_dim), ResnetBlock(a, a, time_dim), LinearAttention(a)]
            self.downs.append(nn.ModuleList([*parts, nn.Conv2d(a, b, 4, 2, 1)]))
        self.mid1 = ResnetBlock(dims[-1], dims[-1], time_dim)
        self.mid_attn = LinearAttention(dims[-1])
        self.mid2 = ResnetBlock(dims[-1], dims[-1], time_dim)
        for a, b in reversed(pairs):
            up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(b, a, 3, padding=1))
            blocks = [ResnetBlock(2 * a, a, time_dim), ResnetBlock(2 * a, a, time_dim)]
            self.ups.append(nn.ModuleList([up, *blocks, LinearAttention(a)]))
        self.final = nn.Conv2d(dim, 3, 1)

    def forward(self, x, t):
        x, t = self.init(x), self.time(t)
        kept = []
        for block1, block2, attn, down in self.downs:
            x = block1(x, t)
            kept.append(x)
            x = attn(block2(x, t))
            kept.append(x)
            x = down(x)
        x = self.mid2(self.mid_attn(self.mid1(x, t)), t)
        for up, block1, block2, attn in self.ups:
            x = up(x)
            x = block1(torch.cat((x, kept.pop()), dim=1), t)
            x = attn(block2(torch.cat((x, kept.pop()), dim=1), t))
        return self.final(x)


@torch.inference_mode()
def sample(model, alphas_bar, count, size, steps, device):
    x = torch.randn(count, 3, size, size, device=device)
    times = torch.linspace(len(alphas_bar) - 1, 0, steps + 1).long().tolist()
    for now, then in zip(times, times[1:]):
        t = torch.full((count,), now, device=device)
        noise = model(x, t)
        a, b = alphas_bar[now], alphas_bar[then]
        start = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        x = b.sqrt() * start + (1 - b).sqrt() * noise
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--mults", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--sample-steps", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = Unet(args.dim, args.mults).to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-5, betas=(0.9, 0.99))
    alphas_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device=device), dim=0)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        noise = torch.randn_like(images)
        a = alphas_bar[t][:, None, None, None]
        noised = a.sqrt() * images + (1 - a).sqrt() * noise
        loss = F.mse_loss(model(noised, t), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.005)
        print(f"step {step} loss {loss.item():.4f}")
    images = sample(ema.eval(), alphas_bar, args.samples, args.size, args.sample_steps, device)
    print("samples", tuple(images.shape), f"{images.std().item():.3f}")


if __name__ == "__main__":
    main()
