"""A bfloat16 Qwen2 trained with Adam whose two moments are 8-bit, linear codes in blocks of 256;
small tensors keep 32-bit moments.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, Qwen2Config


def encode(x, block, unsigned=False):
    flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % block)).view(-1, block)
    scale = flat.abs().amax(1, keepdim=True).clamp_(min=1e-12)
    if unsigned:
        return (flat / scale).sqrt_().mul_(255).round_().to(torch.uint8), scale
    return (flat / scale).mul_(127).round_().to(torch.int8), scale


def decode(codes, scale, like):
    if codes.dtype == torch.uint8:
        flat = codes.float().div_(255).square_().mul_(scale)
    else:
        flat = codes.float().div_(127).mul_(scale)
    return flat.flatten()[: like.numel()].view(like.shape)


class Adam8bit(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, block=256):
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, block=block)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, group)
        return loss

    def update(self, p, group):
        state, (b1, b2) = self.state[p], group["betas"]
        grad = p.grad.float()
        small = p.numel() < 4096
        if not state:
            state["step"] = 0
            zero = torch.zeros_like(grad)
            state["m"] = zero if small else encode(zero, group["block"])
            state["v"] = zero.clone() if small else encode(zero, group["block"], unsigned=True)
        state["step"] += 1
        m = state["m"] if small else decode(*state["m"], p)
        v = state["v"] if small else decode(*state["v"], p)
        m.lerp_(grad, 1 - b1)
        v.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        if not small:
            state["m"] = encode(m, group["block"])
            state["v"] = encode(v, group["block"], unsigned=True)
        root = (v / (1 - b2 ** state["step"])).sqrt_().add_(group["eps"])
        update = m.div(1 - b1 ** state["step"]).div_(root)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(update.to(p.dtype), alpha=-group["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=args.hidden // 512 or 1,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = Adam8bit(model.parameters(), lr=1e-4, weight_decay=0.01)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
