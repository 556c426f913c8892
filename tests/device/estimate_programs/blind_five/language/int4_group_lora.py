"""LoRA over weights of 4 bits in groups, unpacked in forward and again in backward."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM


def pack(weight, group):
    w = weight.float().view(weight.size(0), -1, group)
    low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    scale = ((high - low) / 15).clamp(min=1e-8)
    q = ((w - low) / scale).round().clamp(0, 15).to(torch.uint8).view(weight.shape)
    packed = q[:, 0::2] | (q[:, 1::2] << 4)
    return packed, scale.half(), low.half()


def unpack(packed, scale, low, group, dtype):
    q = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    w = q.view(q.size(0), -1, group).to(dtype) * scale.to(dtype) + low.to(dtype)
    return w.view(q.shape)


class Matmul4(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, scale, low, group):
        ctx.save_for_backward(packed, scale, low)
        ctx.group = group
        return x @ unpack(packed, scale, low, group, x.dtype).T

    @staticmethod
    def backward(ctx, grad):
        weight = unpack(*ctx.saved_tensors, ctx.group, grad.dtype)
        return grad @ weight, None, None, None, None


class Linear4(nn.Module):
    def __init__(self, linear, group, rank):
        super().__init__()
        packed, scale, low = pack(linear.weight.data, group)
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.register_buffer("low", low)
        self.group = group
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        y = Matmul4.apply(x, self.packed, self.scale, self.low, self.group)
        return y + F.linear(F.linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))


def quantise(module, group, rank):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name != "lm_head":
            setattr(module, name, Linear4(child, group, rank))
        else:
            quantise(child, group, rank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(30)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=args.vocab,
                hidden_size=args.width,
                intermediate_size=args.width * 11 // 4,
                num_hidden_layers=args.layers,
                num_attention_heads=args.width // 128,
                num_key_value_heads=max(1, args.width // 512),
                use_cache=False,
            )
        )
    model.requires_grad_(False)
    model.to(torch.bfloat16)
    quantise(model, args.group, args.rank)
    model.to(device)
    torch.cuda.empty_cache()
    model.train()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    adapters = [p for n, p in model.named_parameters() if n.endswith((".down", ".up"))]
    for p in adapters:
        p.requires_grad_(True)
    optimizer = torch.optim.AdamW(adapters, lr=1e-4)
    for step in range(3):
        ids = torch.randint(args.vocab, (args.batch_size, args.length), device=device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        nn.utils.clip_grad_norm_(adapters, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
