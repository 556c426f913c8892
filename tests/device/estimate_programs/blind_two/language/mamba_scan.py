"""A Mamba-like language model; the selective scan is a loop over time in plain torch."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class MambaBlock(nn.Module):
    def __init__(self, d_model, d_state=16, d_conv=4, expand=2):
        super().__init__()
        d_inner = expand * d_model
        self.dt_rank = math.ceil(d_model / 16)
        self.d_state = d_state
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=False)
        self.conv = nn.Conv1d(d_inner, d_inner, d_conv, groups=d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(d_inner, self.dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, d_inner)
        A = torch.arange(1, d_state + 1, dtype=torch.float32).repeat(d_inner, 1)
        self.A_log = nn.Parameter(torch.log(A))
        self.D = nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)

    def forward(self, x):
        length = x.shape[1]
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = self.conv(x.transpose(1, 2))[:, :, :length].transpose(1, 2)
        x = F.silu(x)
        return self.out_proj(self.scan(x) * F.silu(z))

    def scan(self, u):
        delta, B, C = self.x_proj(u).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        delta = F.softplus(self.dt_proj(delta))
        A = -torch.exp(self.A_log)
        dA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        dBu = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        h = torch.zeros(u.size(0), u.size(2), self.d_state, device=u.device)
        ys = []
        for t in range(u.size(1)):
            h = dA[:, t] * h + dBu[:, t]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, t]))
        return torch.stack(ys, dim=1) + u * self.D


class Mamba(nn.Module):
    def __init__(self, vocab, d_model, n_layer):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList([MambaBlock(d_model) for _ in range(n_layer)])
        self.norms = nn.ModuleList([nn.RMSNorm(d_model) for _ in range(n_layer)])
        self.norm_f = nn.RMSNorm(d_model)
        self.lm_head = nn.Linear(d_model, vocab, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.lm_head(self.norm_f(x))


def copy_task(batch, length, vocab):
    """The first half is random, the second half repeats it."""
    half = torch.randint(1, vocab, (batch, length // 2))
    return torch.cat([half, half], dim=1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--length", type=int, default=192)
    p.add_argument("--d-model", type=int, default=512)
    p.add_argument("--n-layer", type=int, default=4)
    p.add_argument("--vocab", type=int, default=8192)
    p.add_argument("--steps", type=int, default=4)
    args = p.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Mamba(args.vocab, args.d_model, args.n_layer).to(device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda s: min(1.0, (s + 1) / 3))

    for step in range(args.steps):
        ids = copy_task(args.batch, args.length, args.vocab).to(device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
        optim.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        sched.step()
        with torch.no_grad():
            half = args.length // 2
            acc = (logits[:, half:].argmax(-1) == ids[:, half + 1 :]).float().mean()
        print(f"step {step}  loss {loss.item():.3f}  copied {acc.item():.3%}")

    model.eval()
    with torch.no_grad():
        ids = copy_task(4 * args.batch, args.length, args.vocab).to(device)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    print(f"test loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
