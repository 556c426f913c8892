"""GPT-Neo with a Lion optimizer whose momentum is kept in 8 bits with a scale for each block."""

import argparse

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM


class Lion8bit(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1, block=256):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, block=block))

    @staticmethod
    def pack(momentum, block):
        flat = momentum.flatten()
        missing = -flat.numel() % block
        flat = torch.nn.functional.pad(flat, (0, missing)).view(-1, block)
        scale = flat.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12)
        return (flat / scale * 127).round_().to(torch.int8), scale

    @staticmethod
    def unpack(codes, scale, like):
        return (codes.float() * (scale / 127)).flatten()[: like.numel()].view_as(like)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["codes"], state["scale"] = self.pack(torch.zeros_like(p), group["block"])
                momentum = self.unpack(state["codes"], state["scale"], p)
                update = torch.lerp(p.grad, momentum, first).sign_()
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])
                momentum.lerp_(p.grad, 1 - second)
                state["codes"], state["scale"] = self.pack(momentum, group["block"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GPTNeoConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_layers=args.layers,
        attention_types=[[["global", "local"], args.layers // 2]],
        num_heads=args.width // 64,
        window_size=args.length // 4,
        max_position_embeddings=args.length,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=1,
    )
    model = GPTNeoForCausalLM(config).to(device)
    optimizer = Lion8bit(model.parameters())
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        model.zero_grad()
        print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
