"""Adam with 8-bit moments in blocks of 256, written by hand, on a GPT-2 with bf16 autocast."""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel

BLOCK = 256


def pack(x, signed):
    flat = x.flatten()
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % BLOCK)).view(-1, BLOCK)
    top = flat.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12)
    if signed:
        return (flat / top * 127).round_().to(torch.int8), top
    return ((flat / top).sqrt_() * 255).round_().to(torch.uint8), top


def unpack(codes, top, like, signed):
    x = codes.float()
    x = x / 127 * top if signed else (x / 255).square_() * top
    return x.flatten()[: like.numel()].view_as(like)


class Adam8bit(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, smallest=4096):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, smallest=smallest))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                small = p.numel() < group["smallest"]
                if not state:
                    zero = torch.zeros_like(p)
                    state["step"] = 0
                    state["m"] = zero if small else pack(zero, True)
                    state["v"] = torch.zeros_like(p) if small else pack(zero, False)
                state["step"] += 1
                m = state["m"] if small else unpack(*state["m"], p, True)
                v = state["v"] if small else unpack(*state["v"], p, False)
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                p.addcdiv_(m, v.sqrt().add_(group["eps"]), value=-group["lr"] * correction)
                if not small:
                    state["m"], state["v"] = pack(m, True), pack(v, False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=args.vocab,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config).cuda()
    optimizer = Adam8bit(model.parameters(), lr=1e-4)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
