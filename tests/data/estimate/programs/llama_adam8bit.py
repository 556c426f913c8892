"""Full fine-tuning of a Llama with checkpointing and an Adam that keeps its moments in 8 bits."""

import argparse

import torch
from torch.optim import Optimizer
from transformers import LlamaConfig, LlamaForCausalLM

BLOCK = 256


def quantize(x, signed):
    """Blockwise absolute-maximum quantization: 8-bit codes and one scale for 256 values."""
    flat = x.reshape(-1)
    padding = -flat.numel() % BLOCK
    if padding:
        flat = torch.cat([flat, flat.new_zeros(padding)])
    blocks = flat.view(-1, BLOCK)
    scale = blocks.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12)
    if signed:
        return (blocks / scale * 127).round_().to(torch.int8), scale
    return (blocks / scale * 255).round_().to(torch.uint8), scale


def dequantize(codes, scale, like):
    limit = 127 if codes.dtype == torch.int8 else 255
    values = codes.float().mul_(scale / limit)
    return values.view(-1)[: like.numel()].view_as(like)


class Adam8bit(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.float()
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = quantize(torch.zeros_like(grad), True)
                    state["exp_avg_sq"] = quantize(torch.zeros_like(grad), False)
                state["step"] += 1
                m = dequantize(*state["exp_avg"], grad).lerp_(grad, 1 - beta1)
                v = dequantize(*state["exp_avg_sq"], grad).mul_(beta2)
                v.addcmul_(grad, grad, value=1 - beta2)
                state["exp_avg"], state["exp_avg_sq"] = quantize(m, True), quantize(v, False)
                correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
                update = m.mul_(correction).div_(v.sqrt_().add_(group["eps"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.to(p.dtype), alpha=-group["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=max(1, args.width // 256),
        max_position_embeddings=args.length,
        use_cache=False,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = Adam8bit(model.parameters(), lr=2e-5, weight_decay=0.01)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device=device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
