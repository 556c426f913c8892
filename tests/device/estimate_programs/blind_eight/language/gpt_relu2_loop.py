"""A GPT in the manner of the speed runs: rotary positions, squared ReLU, normalised queries and
keys, soft-capped logits; fused AdamW, accumulation, a held-out loss every other update.
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Rotary(nn.Module):
    def __init__(self, dim, longest):
        super().__init__()
        freq = (1 / 1024) ** torch.linspace(0, 1, steps=dim // 2)
        theta = torch.outer(torch.arange(longest, dtype=torch.float32), freq)
        self.register_buffer("cos", theta.cos(), persistent=False)
        self.register_buffer("sin", theta.sin(), persistent=False)

    def forward(self, x):
        cos, sin = self.cos[None, : x.size(1), None], self.sin[None, : x.size(1), None]
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin], -1).type_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads, longest):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)
        self.rotary = Rotary(dim // heads, longest)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(norm(x)).view(B, T, 3, self.heads, C // self.heads).unbind(2)
        q, k = self.rotary(norm(q)), self.rotary(norm(k))
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.relu(self.up(norm(x))).square())


class GPT(nn.Module):
    def __init__(self, vocab, dim, heads, depth, longest):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, longest) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)
        nn.init.zeros_(self.head.weight)

    def forward(self, ids, targets):
        x = norm(self.embed(ids))
        for block in self.blocks:
            x = block(x)
        logits = self.head(norm(x)).float()
        logits = 30 * torch.tanh(logits / 30)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--updates", type=int, default=4)
    args = parser.parse_args()
    device = "cuda"
    torch.manual_seed(1337)
    model = GPT(args.vocab, args.dim, args.heads, args.depth, args.length).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1.8e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    data = torch.randint(0, args.vocab, (2_000_000,))

    def get_batch():
        start = torch.randint(len(data) - args.length - 1, (args.batch_size,))
        x = torch.stack([data[i : i + args.length] for i in start])
        y = torch.stack([data[i + 1 : i + 1 + args.length] for i in start])
        return x.to(device, non_blocking=True), y.to(device, non_blocking=True)

    context = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
    for update in range(args.updates):
        started = time.time()
        if update % 2 == 0:
            model.eval()
            with torch.no_grad(), context:
                held_out = sum(model(*get_batch()).item() for _ in range(2)) / 2
            print(f"update {update} held-out loss {held_out:.4f}")
            model.train()
        for _ in range(args.accumulation):
            x, y = get_batch()
            with context:
                loss = model(x, y) / args.accumulation
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds = time.time() - started
        print(f"update {update} loss {loss.item() * args.accumulation:.4f} {seconds:.2f}s")


if __name__ == "__main__":
    main()
