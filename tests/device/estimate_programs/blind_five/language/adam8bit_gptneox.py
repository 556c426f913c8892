"""AdamW with states of 8 bits in blocks, written as an Optimizer, for a GPT-NeoX model in bf16."""

import argparse

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

BLOCK = 256


def squeeze(x):
    flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % BLOCK)).view(-1, BLOCK)
    top = flat.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
    return (flat / top * 127).round().to(torch.int8), top


def expand(codes, top, like):
    return (codes.float() * (top / 127)).flatten()[: like.numel()].view_as(like)


class AdamW8bit(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                g = p.grad.float()
                if not state:
                    state["step"] = 0
                    state["m"] = squeeze(torch.zeros_like(g))
                    state["r"] = squeeze(torch.zeros_like(g))
                state["step"] += 1
                m = expand(*state["m"], g).lerp_(g, 1 - b1)
                # The root of the second moment keeps more of its range in eight bits.
                v = expand(*state["r"], g).square_().mul_(b2).addcmul_(g, g, value=1 - b2)
                r = v.sqrt_()
                state["m"], state["r"] = squeeze(m), squeeze(r)
                m /= 1 - b1 ** state["step"]
                r /= (1 - b2 ** state["step"]) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m / r.add_(group["eps"])).to(p.dtype), alpha=-group["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(88)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = GPTNeoXConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    model = GPTNeoXForCausalLM(config).to(device=device, dtype=torch.bfloat16)
    optimizer = AdamW8bit(model.parameters(), lr=2e-4, weight_decay=0.1)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).to(device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
