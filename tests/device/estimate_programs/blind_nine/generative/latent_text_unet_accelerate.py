"""Text-to-image fine-tuning in the shape of Stable Diffusion, with Accelerate: a frozen encoder of
images and one of text, a U-Net with cross-attention that is checkpointed, EMA, bf16.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from transformers import CLIPTextConfig, CLIPTextModel


class Res(nn.Module):
    def __init__(self, a, b, time):
        super().__init__()
        self.one = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, 1, 1))
        self.two = nn.Sequential(nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, 1, 1))
        self.time = nn.Linear(time, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        return self.skip(x) + self.two(self.one(x) + self.time(t)[:, :, None, None])


class CrossBlock(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.q1, self.kv1 = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.q2, self.kv2 = nn.Linear(width, width), nn.Linear(context, 2 * width)
        self.o1, self.o2 = nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def attend(self, q, kv):
        B, N, C = q.shape
        k, v = kv.chunk(2, -1)
        q, k, v = (z.view(B, -1, self.heads, C // self.heads).transpose(1, 2) for z in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C)

    def forward(self, x, words):
        B, C, H, W = x.shape
        h = x.flatten(2).transpose(1, 2)
        n = self.norms[0](h)
        h = h + self.o1(self.attend(self.q1(n), self.kv1(n)))
        h = h + self.o2(self.attend(self.q2(self.norms[1](h)), self.kv2(words)))
        value, gate = self.up(self.norms[2](h)).chunk(2, -1)
        h = h + self.down(value * F.gelu(gate))
        return h.transpose(1, 2).reshape(B, C, H, W)


class UNet(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        time = 4 * width
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, width, 3, 1, 1)
        w = (width, 2 * width, 4 * width)
        self.res = nn.ModuleList(Res(a, b, time) for a, b in zip((width, *w), w))
        self.cross = nn.ModuleList(CrossBlock(c, c // 40, context) for c in w)
        self.shrink = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for c in w[:-1])
        self.back = nn.ModuleList(
            Res(a, b, time) for a, b in ((w[2] + w[1], w[1]), (w[1] + w[0], w[0]))
        )
        self.back_cross = nn.ModuleList(CrossBlock(c, c // 40, context) for c in (w[1], w[0]))
        self.leave = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 4, 3, 1, 1))

    def forward(self, x, t, words):
        t, x, kept = self.time(t[:, None] / 1000), self.enter(x), []
        for i in range(3):
            x = checkpoint(self.res[i], x, t, use_reentrant=False)
            x = checkpoint(self.cross[i], x, words, use_reentrant=False)
            if i < 2:
                kept.append(x)
                x = self.shrink[i](x)
        for i in range(2):
            x = torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1)
            x = checkpoint(self.back[i], x, t, use_reentrant=False)
            x = checkpoint(self.back_cross[i], x, words, use_reentrant=False)
        return self.leave(x)


def image_encoder(width):
    layers = [nn.Conv2d(3, width, 3, 1, 1)]
    for i in range(3):
        layers += [nn.Conv2d(width << i, width << (i + 1), 4, 2, 1), nn.SiLU()]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 4, 3, 1, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--context", type=int, default=768)
    parser.add_argument("--text-layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=49408)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--mixed-precision", default="bf16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    dtype = torch.bfloat16 if args.mixed_precision == "bf16" else torch.float32
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=args.vocab,
            hidden_size=args.context,
            intermediate_size=4 * args.context,
            num_hidden_layers=args.text_layers,
            num_attention_heads=args.context // 64,
        )
    )
    vae = image_encoder(32)
    for frozen in (text, vae):
        frozen.requires_grad_(False).eval().to(accelerator.device, dtype)
    unet = UNet(args.width, args.context)
    ema = copy.deepcopy(unet).requires_grad_(False).to(accelerator.device)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5, weight_decay=1e-2)
    count = args.batch_size * args.batches
    data = TensorDataset(
        torch.rand(count, 3, args.size, args.size) * 2 - 1,
        torch.randint(0, args.vocab, (count, 77)),
    )
    loader = DataLoader(data, args.batch_size, shuffle=True)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, device=accelerator.device) ** 2
    signal = (1 - betas).cumprod(0)
    for images, ids in loader:
        with torch.no_grad():
            latents = vae(images.to(dtype)) * 0.18215
            words = text(ids).last_hidden_state
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (len(latents),), device=latents.device)
        a = signal[t][:, None, None, None].to(latents.dtype)
        noisy = a.sqrt() * latents + (1 - a).sqrt() * noise
        loss = F.mse_loss(unet(noisy, t.float(), words).float(), noise.float())
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for old, new in zip(ema.parameters(), accelerator.unwrap_model(unet).parameters()):
                old.mul_(0.9999).add_(new, alpha=0.0001)
        accelerator.print(loss.item())


if __name__ == "__main__":
    main()
