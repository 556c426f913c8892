"""Linear layers turned to int8 weights with a scale per row; perplexity before and after."""

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
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.squeeze(1).to(linear.weight.dtype))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.data)

    def forward(self, x):
        y = F.linear(x, self.weight.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias


def convert(model, skip=("lm_head",)):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name not in skip:
                setattr(module, name, Int8Linear(child))
    return model


@torch.no_grad()
def perplexity(model, text, batch):
    losses = []
    for rows in text.split(batch):
        logits = model(rows).logits[:, :-1]
        losses.append(F.cross_entropy(logits.float().transpose(1, 2), rows[:, 1:]).item())
    return math.exp(min(30.0, sum(losses) / len(losses)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=12)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--length", type=int, default=768)
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--vocab", type=int, default=50272)
    args = p.parse_args()
    torch.manual_seed(70)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = OPTConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        ffn_dim=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        word_embed_proj_dim=args.hidden,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = OPTForCausalLM(config).to(device, dtype).eval()
    text = torch.randint(4, args.vocab, (args.rows, args.length), device=device)
    print("before", perplexity(model, text, args.batch))
    convert(model)
    torch.cuda.empty_cache()
    print("after", perplexity(model, text, args.batch))
    print(sum(b.numel() * b.element_size() for b in model.buffers()) >> 20, "MiB of buffers")


if __name__ == "__main__":
    main()
