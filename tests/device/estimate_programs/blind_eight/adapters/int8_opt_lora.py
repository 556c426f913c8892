"""An OPT whose linear layers hold int8 weights with a scale per row, dequantised on the fly in
forward and backward; LoRA adapters in bfloat16 are trained.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import OPTConfig, OPTForCausalLM


class DequantLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, scale, bias):
        ctx.save_for_backward(weight, scale)
        full = weight.to(x.dtype) * scale.to(x.dtype)
        return F.linear(x, full, bias)

    @staticmethod
    def backward(ctx, grad):
        weight, scale = ctx.saved_tensors
        full = weight.to(grad.dtype) * scale.to(grad.dtype)
        return grad @ full, None, None, None


class Int8Lora(nn.Module):
    def __init__(self, linear, rank):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", linear.bias.detach().clone())
        dtype = linear.weight.dtype
        self.a = nn.Parameter(torch.randn(rank, linear.in_features, dtype=dtype) * 0.02)
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank, dtype=dtype))

    def forward(self, x):
        y = DequantLinear.apply(x, self.weight, self.scale, self.bias)
        return y + F.linear(F.linear(x, self.a), self.b)


def quantise(module, rank):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Lora(child, rank))
        else:
            quantise(child, rank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50272)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        word_embed_proj_dim=args.hidden,
        ffn_dim=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    model = OPTForCausalLM(config).to(torch.bfloat16)
    model.requires_grad_(False)
    quantise(model.model.decoder.layers, args.rank)
    model.to("cuda")
    model.train()
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=3e-4)
    for step in range(args.steps):
        ids = torch.randint(4, args.vocab, (args.batch_size, args.length)).to("cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
