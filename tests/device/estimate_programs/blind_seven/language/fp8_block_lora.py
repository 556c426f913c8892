"""Adapters on a frozen ERNIE 4.5 decoder whose weights are kept in float8 with a scale for every
128 inputs; weights are brought back to bf16 for each product.
"""

import argparse

import torch
from torch import nn
from transformers import Ernie4_5Config, Ernie4_5ForCausalLM

BLOCK = 128
FP8_MAX = 448.0


def to_fp8(weight):
    rows, columns = weight.shape
    blocks = weight.float().view(rows, columns // BLOCK, BLOCK)
    scale = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-8) / FP8_MAX
    return (blocks / scale).to(torch.float8_e4m3fn), scale.to(torch.bfloat16)


def from_fp8(codes, scale):
    return (codes.to(torch.bfloat16) * scale).flatten(1)


class Fp8Product(torch.autograd.Function):
    """x @ W.T for a frozen W: the backward pass unpacks W again, nothing of it is saved."""

    @staticmethod
    def forward(ctx, x, codes, scale):
        ctx.save_for_backward(codes, scale)
        return x @ from_fp8(codes, scale).t()

    @staticmethod
    def backward(ctx, grad):
        codes, scale = ctx.saved_tensors
        return grad @ from_fp8(codes, scale), None, None


class Fp8LoraLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        codes, scale = to_fp8(linear.weight.data)
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        bias = linear.bias
        self.bias = None if bias is None else nn.Parameter(bias.data, requires_grad=False)
        device = codes.device
        self.a = nn.Linear(
            linear.in_features, rank, bias=False, device=device, dtype=torch.bfloat16
        )
        self.b = nn.Linear(
            rank, linear.out_features, bias=False, device=device, dtype=torch.bfloat16
        )
        nn.init.zeros_(self.b.weight)
        self.factor = alpha / rank

    def forward(self, x):
        y = Fp8Product.apply(x, self.codes, self.scale)
        if self.bias is not None:
            y = y + self.bias
        return y + self.b(self.a(x)) * self.factor


def convert(module, rank, alpha):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Fp8LoraLinear(child, rank, alpha))
        else:
            convert(child, rank, alpha)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--vocab", type=int, default=65536)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = Ernie4_5Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=max(args.hidden // 512, 1),
        head_dim=128,
        max_position_embeddings=args.length,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with torch.device(args.device):
        model = Ernie4_5ForCausalLM(config).to(torch.bfloat16)
    model.requires_grad_(False)
    # The head shares the embedding's weight, so only the decoder layers are converted.
    convert(model.model.layers, args.rank, alpha=2 * args.rank)
    if args.device == "cuda":
        torch.cuda.empty_cache()
    model.train()

    adapters = [p for p in model.parameters() if p.requires_grad]
    print(f"{sum(p.numel() for p in adapters) / 1e6:.1f} M adapter parameters")
    optimizer = torch.optim.AdamW(adapters, lr=1e-4)
    generator = torch.Generator().manual_seed(1)
    shape = (args.batch_size, args.length)
    for step in range(args.steps):
        ids = torch.randint(3, args.vocab, shape, generator=generator).to(args.device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        norm = nn.utils.clip_grad_norm_(adapters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}")


if __name__ == "__main__":
    main()
