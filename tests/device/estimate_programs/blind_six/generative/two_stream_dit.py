"""A two-stream diffusion transformer (text and image tokens) with rectified flow: bf16,
checkpoints, EMA.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint


class Stream(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.modulate = nn.Linear(width, 6 * width)
        self.n1 = nn.LayerNorm(width, elementwise_affine=False)
        self.n2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.qn, self.kn = nn.RMSNorm(64), nn.RMSNorm(64)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )

    def before(self, x, c):
        self.parts = self.modulate(F.silu(c))[:, None].chunk(6, dim=-1)
        h = self.n1(x) * (1 + self.parts[0]) + self.parts[1]
        q, k, v = self.qkv(h).unflatten(-1, (3, -1, 64)).permute(2, 0, 3, 1, 4)
        return self.qn(q).to(v), self.kn(k).to(v), v

    def after(self, x, y):
        _, _, gate, scale, shift, gate2 = self.parts
        del self.parts
        x = x + gate * self.out(y)
        return x + gate2 * self.feed(self.n2(x) * (1 + scale) + shift)


class Joint(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.image, self.text = Stream(width), Stream(width)

    def forward(self, x, y, c):
        parts = [torch.cat(p, dim=2) for p in zip(self.text.before(y, c), self.image.before(x, c))]
        out = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        a, b = out.split([y.shape[1], x.shape[1]], dim=1)
        return self.image.after(x, b), self.text.after(y, a)


class Model(nn.Module):
    def __init__(self, width, layers, tokens, channels, text):
        super().__init__()
        self.patch = nn.Conv2d(channels, width, 2, 2)
        self.place = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.text = nn.Linear(text, width)
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Joint(width) for _ in range(layers))
        self.out = nn.Linear(width, 4 * channels)

    def forward(self, x, t, text):
        B, C, H, W = x.shape
        c = self.time(t[:, None])
        x, y = self.patch(x).flatten(2).transpose(1, 2) + self.place, self.text(text)
        for layer in self.layers:
            if self.training:
                x, y = checkpoint(layer, x, y, c, use_reentrant=False)
            else:
                x, y = layer(x, y, c)
        x = self.out(x).view(B, H // 2, W // 2, C, 2, 2)
        return x.permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--words", type=int, default=77)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args.width, args.layers, (args.size // 2) ** 2, 16, 512).cuda()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9999))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(4):
        clean = torch.randn(args.batch_size, 16, args.size, args.size, device="cuda")
        text = torch.randn(args.batch_size, args.words, 512, device="cuda")
        drop = torch.rand(args.batch_size, 1, 1, device="cuda") < 0.1
        text = torch.where(drop, torch.zeros_like(text), text)
        t = torch.sigmoid(torch.randn(args.batch_size, device="cuda"))
        noise = torch.randn_like(clean)
        mixed = torch.lerp(clean, noise, t[:, None, None, None])
        with torch.autocast("cuda", torch.bfloat16):
            guess = model(mixed, t, text)
        loss = F.mse_loss(guess.float(), noise - clean)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        print(step, loss.item())
    average.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        x = torch.randn(4, 16, args.size, args.size, device="cuda")
        for t in torch.linspace(1, 0.25, 4).tolist():
            with_text = average(x, torch.full((4,), t, device="cuda"), text[:4])
            without = average(x, torch.full((4,), t, device="cuda"), torch.zeros_like(text[:4]))
            x = x - 0.25 * (without + 4 * (with_text - without))
    print(x.std().item())


if __name__ == "__main__":
    main()
