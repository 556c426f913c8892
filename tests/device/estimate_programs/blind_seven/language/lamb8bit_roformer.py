"""Masked language modelling with RoFormer and an own LAMB optimizer that keeps both moments as
one byte per value, coded against a table of 256 levels.
"""

import argparse

import torch
from torch.optim import Optimizer
from transformers import RoFormerConfig, RoFormerForMaskedLM

BLOCK = 2048


def level_table(signed):
    """Levels dense near zero: powers of ten times even steps, as in dynamic quantisation."""
    levels = [0.0]
    for power in range(7):
        count = 2 ** (power + (0 if signed else 1))
        edges = torch.linspace(0.1, 1.0, count + 1)
        middle = (edges[:-1] + edges[1:]) / 2
        levels += (middle * 10.0 ** (power - 6)).tolist()
    if signed:
        levels += [-x for x in levels if x > 0]
    levels.append(1.0)
    return torch.tensor(sorted(levels))


class Coded:
    """A tensor as bytes and one float32 maximum for each block."""

    def __init__(self, like, table):
        self.shape, self.size, self.table = like.shape, like.numel(), table
        blocks = -(-self.size // BLOCK)
        zero = int((table == 0).nonzero()[0])
        self.codes = torch.full((blocks, BLOCK), zero, dtype=torch.uint8, device=like.device)
        self.peak = torch.zeros(blocks, 1, device=like.device)

    def read(self):
        values = self.table[self.codes.int()] * self.peak
        return values.flatten()[: self.size].view(self.shape)

    def write(self, values):
        flat = torch.zeros(self.codes.numel(), device=values.device)
        flat[: self.size] = values.flatten()
        flat = flat.view_as(self.codes)
        self.peak = flat.abs().amax(1, keepdim=True)
        scaled = flat / self.peak.clamp(min=1e-30)
        middles = (self.table[1:] + self.table[:-1]) / 2
        self.codes = torch.bucketize(scaled, middles, out_int32=True).to(torch.uint8)


class Lamb8bit(Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.tables = {}

    def table(self, signed, device):
        if (signed, device) not in self.tables:
            self.tables[signed, device] = level_table(signed).to(device)
        return self.tables[signed, device]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = Coded(p, self.table(True, p.device))
                    state["v"] = Coded(p, self.table(False, p.device))
                state["step"] += 1
                m = state["m"].read().mul_(beta1).add_(p.grad, alpha=1 - beta1)
                # The second moment is coded as its square root, which needs fewer levels.
                v = state["v"].read().square_().mul_(beta2)
                v.addcmul_(p.grad, p.grad, value=1 - beta2)
                root = v.sqrt()
                state["m"].write(m)
                state["v"].write(root)
                m_hat = m / (1 - beta1 ** state["step"])
                root = root / (1 - beta2 ** state["step"]) ** 0.5
                update = m_hat / (root + group["eps"])
                if p.ndim > 1:
                    update.add_(p, alpha=group["weight_decay"])
                    ratio = p.norm() / update.norm().clamp(min=1e-6)
                    update.mul_(ratio.clamp(max=10.0))
                p.add_(update, alpha=-group["lr"])


def mask_tokens(ids, mask_id, vocab, generator):
    labels = ids.clone()
    chosen = torch.rand(ids.shape, generator=generator) < 0.15
    labels[~chosen] = -100
    dice = torch.rand(ids.shape, generator=generator)
    noise = torch.randint(5, vocab, ids.shape, generator=generator)
    ids = torch.where(chosen & (dice < 0.8), torch.full_like(ids, mask_id), ids)
    ids = torch.where(chosen & (dice > 0.9), noise, ids)
    return ids, labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = RoFormerConfig(
        vocab_size=args.vocab,
        embedding_size=args.hidden,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=args.length,
    )
    model = RoFormerForMaskedLM(config).to(args.device).train()
    optimizer = Lamb8bit(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(0)
    for step in range(args.steps):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length), generator=generator)
        ids, labels = mask_tokens(ids, 4, args.vocab, generator)
        ids, labels = ids.to(args.device), labels.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")
    coded = [c for state in optimizer.state.values() for c in (state["m"], state["v"])]
    print(f"optimizer state {sum(c.codes.numel() for c in coded) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
