"""Inference with int8 weights: linears are swapped, activations stay bf16, perplexity measured."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import OPTConfig, OPTForCausalLM


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.data.float()
        scale = weight.abs().amax(dim=1).clamp(min=1e-8) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale.to(linear.weight.dtype))
        self.bias = linear.bias

    def forward(self, x):
        y = F.linear(x, self.weight.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias


def quantize(module, skip=("lm_head",)):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(module, name, Int8Linear(child))
        else:
            quantize(child, skip)
    return module


def size_of(model):
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors) / 2**20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=50272)
    parser.add_argument("--batches", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(44)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = OPTConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        word_embed_proj_dim=args.width,
        ffn_dim=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        max_position_embeddings=args.length,
    )
    model = OPTForCausalLM(config).eval().to(device, dtype=torch.bfloat16)
    print(f"before: {size_of(model):.0f} MiB")
    quantize(model)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    print(f"after: {size_of(model):.0f} MiB")

    total, count = 0.0, 0
    with torch.inference_mode():
        for _ in range(args.batches):
            ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device=device)
            logits = model(input_ids=ids, use_cache=False).logits
            loss = F.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="sum"
            )
            total += loss.item()
            count += ids[:, 1:].numel()
            print(f"loss {total / count:.4f}")
    print(f"perplexity {math.exp(min(total / count, 30)):.1f}")


if __name__ == "__main__":
    main()
