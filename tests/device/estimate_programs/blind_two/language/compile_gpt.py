"""A small GPT compiled with torch.compile: rotary positions, RMS norms, squared ReLU, bf16."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Rotary(nn.Module):
    def __init__(self, dim, length, base=10000):
        super().__init__()
        freqs = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        angles = torch.outer(torch.arange(length).float(), freqs)
        self.register_buffer("cos", angles.cos()[None, :, None], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None], persistent=False)

    def forward(self, x):
        cos, sin = self.cos[:, : x.size(1)], self.sin[:, : x.size(1)]
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin], dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.rotary = Rotary(dim // heads, length)
        self.fc = nn.Linear(dim, 4 * dim, bias=False)
        self.proj = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        h = norm(x)
        q, k, v = (f(h).view(B, T, self.heads, -1) for f in (self.q, self.k, self.v))
        q, k = self.rotary(norm(q)), self.rotary(norm(k))
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.o(y.transpose(1, 2).reshape(B, T, C))
        return x + self.proj(F.relu(self.fc(norm(x))).square())


class GPT(nn.Module):
    def __init__(self, vocab, dim, layers, length):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, dim // 64, length) for _ in range(layers))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, targets):
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x)
        logits = 30 * torch.tanh(self.lm_head(norm(x)) / 30)
        return F.cross_entropy(logits.float().view(-1, logits.size(-1)), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=20000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    raw = GPT(args.vocab, args.dim, args.layers, args.length).to(device)
    model = raw if args.no_compile else torch.compile(raw)
    matrices = list(raw.blocks.parameters())
    others = [*raw.wte.parameters(), *raw.lm_head.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "lr": 1e-3}, {"params": others, "lr": 3e-3}], betas=(0.9, 0.95)
    )
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length + 1)).to(device)
        start = time.time()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.4f} in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
