"""Scores documents with weights kept in fp8 (e4m3) by blocks and widened layer by layer."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import MistralConfig, MistralForCausalLM

BLOCK = 128


class Fp8Linear(nn.Module):
    def __init__(self, weight):
        super().__init__()
        rows, columns = weight.shape
        tiles = weight.float().view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
        scale = tiles.abs().amax((1, 3), keepdim=True).clamp(min=1e-12) / 448
        self.register_buffer("tiles", (tiles / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)

    def forward(self, x):
        rows, columns = self.tiles.size(0) * BLOCK, self.tiles.size(2) * BLOCK
        weight = (self.tiles.to(torch.float32) * self.scale).view(rows, columns)
        return F.linear(x, weight.to(x.dtype))


def shrink(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name != "lm_head":
                setattr(module, name, Fp8Linear(child.weight.data))
                del child


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1536)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=3 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=args.hidden // 256,
        head_dim=128,
        sliding_window=1024,
    )
    with device:
        model = MistralForCausalLM(config).to(torch.bfloat16)
    model.requires_grad_(False).eval()
    shrink(model)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    total, count = 0.0, 0
    with torch.inference_mode():
        for _ in range(args.batches):
            ids = torch.randint(args.vocab, (args.batch_size, args.length), device=device)
            logits = model(ids, use_cache=False).logits
            for row, text in zip(logits, ids):
                total += F.cross_entropy(row[:-1].float(), text[1:], reduction="sum").item()
                count += len(text) - 1
    print(f"mean loss {total / count:.4f} over {count} tokens")


if __name__ == "__main__":
    main()
