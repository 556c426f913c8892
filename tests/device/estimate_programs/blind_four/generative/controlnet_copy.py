"""ControlNet: a frozen half-precision U-Net, a trained copy of its encoder, zero convolutions."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Res(nn.Module):
    def __init__(self, inputs, outputs, embed):
        super().__init__()
        self.one = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)
        )
        self.time = nn.Linear(embed, outputs)
        self.two = nn.Sequential(
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)
        )
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, t):
        return self.skip(x) + self.two(self.one(x) + self.time(t)[:, :, None, None])


class Attend(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.heads = width // 64
        self.norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(context, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, context):
        B, C, H, W = x.shape
        tokens = x.flatten(2).transpose(1, 2)
        q = self.q(self.norm(tokens)).view(B, H * W, self.heads, -1).transpose(1, 2)
        k, v = self.kv(context).view(B, -1, 2, self.heads, C // self.heads).unbind(2)
        y = F.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2))
        tokens = tokens + self.out(y.transpose(1, 2).reshape(B, H * W, C))
        return tokens.transpose(1, 2).view(B, C, H, W)


class Encoder(nn.Module):
    def __init__(self, base, embed, context):
        super().__init__()
        self.first = nn.Conv2d(4, base, 3, padding=1)
        widths = [base, 2 * base, 4 * base]
        self.res = nn.ModuleList([Res(a, b, embed) for a, b in zip([base, *widths[:-1]], widths)])
        self.attend = nn.ModuleList([Attend(w, context) for w in widths])
        self.down = nn.ModuleList([nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1]])

    def forward(self, x, t, context, hint=None):
        x = self.first(x)
        if hint is not None:
            x = x + hint
        kept = []
        for i, (res, attend) in enumerate(zip(self.res, self.attend)):
            x = attend(res(x, t), context)
            kept.append(x)
            if i < len(self.down):
                x = self.down[i](x)
        return kept


class Unet(nn.Module):
    def __init__(self, base, context):
        super().__init__()
        embed = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, embed), nn.SiLU(), nn.Linear(embed, embed))
        self.encoder = Encoder(base, embed, context)
        widths = [4 * base, 2 * base, base]
        self.up = nn.ModuleList(
            [Res(a + b, b, embed) for a, b in zip([4 * base, *widths[:-1]], widths)]
        )
        self.last = nn.Conv2d(base, 4, 3, padding=1)

    def embed_time(self, t, dtype):
        freqs = torch.exp(-9.2 * torch.arange(self.base // 2, device=t.device) / (self.base // 2))
        angle = t[:, None] * freqs
        return self.time(torch.cat([angle.sin(), angle.cos()], 1).to(dtype))

    def decode(self, kept, t):
        x = kept[-1]
        for i, res in enumerate(self.up):
            skip = kept[-1 - i]
            x = F.interpolate(x, size=skip.shape[-2:]) if x.shape[-1] != skip.shape[-1] else x
            x = checkpoint(res, torch.cat([x, skip], 1), t, use_reentrant=False)
        return self.last(x)


class Control(nn.Module):
    def __init__(self, unet):
        super().__init__()
        base = unet.base
        self.encoder = copy.deepcopy(unet.encoder).float()
        self.hint = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 64, 3, 2, 1), nn.SiLU(),
            nn.Conv2d(64, base, 3, 2, 1),
        )  # fmt: skip
        self.zero = nn.ModuleList([nn.Conv2d(w, w, 1) for w in (base, 2 * base, 4 * base)])
        for layer in self.zero:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, t, context, image):
        kept = self.encoder(x, t, context, self.hint(image))
        return [zero(level) for zero, level in zip(self.zero, kept)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=512, help="of the images; latents have 1/8")
    parser.add_argument("--base", type=int, default=192)
    parser.add_argument("--context", type=int, default=768)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(44)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    unet = Unet(args.base, args.context).to(device, half).requires_grad_(False)
    control = Control(unet).to(device).requires_grad_(True)
    optimizer = torch.optim.AdamW(control.parameters(), lr=1e-5)
    scaler = torch.amp.GradScaler(device.type, enabled=half == torch.float16)
    latent = args.size // 8
    for step in range(args.steps):
        x = torch.randn(args.batch_size, 4, latent, latent, device=device, dtype=half)
        image = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        context = torch.randn(args.batch_size, 77, args.context, device=device, dtype=half)
        times = torch.randint(1000, (args.batch_size,), device=device)
        noise = torch.randn_like(x)
        level = (1 - times / 1000).view(-1, 1, 1, 1).to(half)
        noisy = level.sqrt() * x + (1 - level).sqrt() * noise
        with torch.autocast(device.type, half):
            t = unet.embed_time(times, half)
            added = control(noisy, t, context, image)
            with torch.no_grad():
                kept = unet.encoder(noisy, t, context)
            out = unet.decode([a + b for a, b in zip(kept, added)], t)
            loss = F.mse_loss(out.float(), noise.float())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
