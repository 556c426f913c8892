"""A Llama of our own with grouped queries: bf16 parameters, fp32 master copies, our own Adam."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary(length, size, base=500000.0):
    rates = base ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.outer(torch.arange(length).float(), rates)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)


class Layer(nn.Module):
    def __init__(self, dim, heads, groups, hidden):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.norm_attention = nn.RMSNorm(dim)
        self.wq = nn.Linear(dim, heads * self.size, bias=False)
        self.wk = nn.Linear(dim, groups * self.size, bias=False)
        self.wv = nn.Linear(dim, groups * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, dim, bias=False)
        self.norm_feed = nn.RMSNorm(dim)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, turns):
        B, T, _ = x.shape
        h = self.norm_attention(x)
        q = rotate(self.wq(h).view(B, T, self.heads, self.size), turns)
        k = rotate(self.wk(h).view(B, T, self.groups, self.size), turns)
        v = self.wv(h).view(B, T, self.groups, self.size)
        k = k.repeat_interleave(self.heads // self.groups, dim=2)
        v = v.repeat_interleave(self.heads // self.groups, dim=2)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.wo(y.transpose(1, 2).reshape(B, T, -1))
        h = self.norm_feed(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocab, dim, heads, groups, layers, length):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        hidden = 256 * ((8 * dim // 3 + 255) // 256)
        self.layers = nn.ModuleList(Layer(dim, heads, groups, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)
        self.turns = rotary(length, dim // heads)

    def forward(self, ids):
        x = self.embed(ids)
        turns = self.turns[: ids.size(1)].to(x.device)
        for layer in self.layers:
            x = layer(x, turns)
        return self.output(self.norm(x)).float()


class MasterAdam:
    """Adam on fp32 copies of bf16 parameters; the copies are rounded back after each step."""

    def __init__(self, params, lr, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
        self.params = [p for p in params if p.requires_grad]
        self.master = [p.detach().clone().float() for p in self.params]
        self.mean = [torch.zeros_like(m) for m in self.master]
        self.square = [torch.zeros_like(m) for m in self.master]
        self.lr, self.betas, self.eps, self.decay, self.steps = lr, betas, eps, decay, 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        first, second = self.betas
        correct_mean = 1 - first**self.steps
        correct_square = 1 - second**self.steps
        for p, master, mean, square in zip(self.params, self.master, self.mean, self.square):
            grad = p.grad.float()
            mean.lerp_(grad, 1 - first)
            square.mul_(second).addcmul_(grad, grad, value=1 - second)
            scale = (square / correct_square).sqrt_().add_(self.eps)
            if p.ndim > 1:
                master.mul_(1 - self.lr * self.decay)
            master.addcdiv_(mean, scale, value=-self.lr / correct_mean)
            p.copy_(master)
            p.grad = None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with device:
        model = Llama(args.vocab, args.dim, args.heads, args.groups, args.layers, args.length)
    model = model.to(torch.bfloat16)
    optimizer = MasterAdam(model.parameters(), lr=3e-4)
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length + 1)).to(device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.view(-1, args.vocab), ids[:, 1:].reshape(-1))
        loss = loss + 1e-4 * logits.logsumexp(-1).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
