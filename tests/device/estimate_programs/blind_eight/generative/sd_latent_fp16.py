"""Text-to-image fine-tuning in latent space: frozen fp16 image encoder and text model, a U-Net with
cross-attention in fp32 under fp16 autocast, checkpointed blocks, averaged weights.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from transformers import CLIPTextConfig, CLIPTextModel


class Encoder(nn.Sequential):
    """The image encoder of the autoencoder: three times half the size."""

    def __init__(self, width, latent=4):
        layers = [nn.Conv2d(3, width, 3, padding=1)]
        for i in range(3):
            a, b = width * 2**i, width * 2 ** (i + 1)
            layers += [nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, 2, 1)]
        super().__init__(*layers, nn.Conv2d(width * 8, latent, 1))


class CrossBlock(nn.Module):
    def __init__(self, dim, context, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.qkv, self.out1 = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.q, self.kv = nn.Linear(dim, dim, bias=False), nn.Linear(context, 2 * dim, bias=False)
        self.out2 = nn.Linear(dim, dim)
        self.ff_in, self.ff_out = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def attend(self, q, k, v):
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = x.flatten(2).transpose(1, 2)
        y = y + self.out1(self.attend(*self.qkv(self.norms[0](y)).chunk(3, -1)))
        y = y + self.out2(self.attend(self.q(self.norms[1](y)), *self.kv(context).chunk(2, -1)))
        value, gate = self.ff_in(self.norms[2](y)).chunk(2, -1)
        y = y + self.ff_out(value * F.gelu(gate))
        return y.transpose(1, 2).reshape(b, c, h, w)


class Stage(nn.Module):
    def __init__(self, a, b, emb, context, heads):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.emb = nn.Linear(emb, b)
        self.skip = nn.Conv2d(a, b, 1)
        self.cross = CrossBlock(b, context, heads)

    def forward(self, x, emb, context):
        h = self.conv1(F.silu(self.norm1(x))) + self.emb(emb)[:, :, None, None]
        h = self.skip(x) + self.conv2(F.silu(self.norm2(h)))
        return self.cross(h, context)


class UNet(nn.Module):
    def __init__(self, width, context, heads, mults=(1, 2, 4)):
        super().__init__()
        emb = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        widths = [width * m for m in mults]
        starts = [width, *widths[:-1]]
        self.down = nn.ModuleList(Stage(a, b, emb, context, heads) for a, b in zip(starts, widths))
        self.mid = Stage(widths[-1], widths[-1], emb, context, heads)
        self.up = nn.ModuleList(
            Stage(2 * b, a, emb, context, heads) for a, b in zip(reversed(starts), reversed(widths))
        )
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, t, context):
        freqs = torch.exp(-9.2 * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        angles = t[:, None].float() * freqs
        emb = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x, kept = self.first(x), []
        for stage in self.down:
            x = checkpoint(stage, x, emb, context, use_reentrant=False)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = checkpoint(self.mid, x, emb, context, use_reentrant=False)
        for stage in self.up:
            x = torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1)
            x = checkpoint(stage, x, emb, context, use_reentrant=False)
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--text-width", type=int, default=768)
    parser.add_argument("--text-layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=49408)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dtype", default="float16")
    args = parser.parse_args()
    torch.manual_seed(0)
    device, dtype = "cuda", getattr(torch, args.dtype)
    config = CLIPTextConfig(
        vocab_size=args.vocab,
        hidden_size=args.text_width,
        intermediate_size=4 * args.text_width,
        num_hidden_layers=args.text_layers,
        num_attention_heads=args.text_width // 64,
        bos_token_id=args.vocab - 2,
        eos_token_id=args.vocab - 1,
    )
    text = CLIPTextModel(config).to(device, dtype).eval().requires_grad_(False)
    encoder = Encoder(32).to(device, dtype).eval().requires_grad_(False)
    unet = UNet(args.width, args.text_width, args.heads).to(device)
    average = AveragedModel(unet, multi_avg_fn=get_ema_multi_avg_fn(0.9999))
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5, weight_decay=1e-2)
    scaler = torch.amp.GradScaler("cuda")
    alphas = torch.cumprod(1 - torch.linspace(0.00085, 0.012, 1000, device=device), 0)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).to(device, dtype)
        ids = torch.randint(0, args.vocab - 2, (args.batch_size, 77)).to(device)
        ids[:, -1] = args.vocab - 1
        with torch.no_grad():
            latents = encoder(images) * 0.18215
            context = text(input_ids=ids).last_hidden_state
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        a = alphas[t][:, None, None, None]
        noised = (a.sqrt() * latents + (1 - a).sqrt() * noise).float()
        with torch.autocast("cuda", dtype=torch.float16):
            guess = unet(noised, t, context.float())
        loss = F.mse_loss(guess.float(), noise.float())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        average.update_parameters(unet)
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
