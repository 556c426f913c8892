"""QLoRA by hand: 4-bit NormalFloat weights in blocks of 64 whose scales are quantised again to
8 bits, bfloat16 adapters, checkpointed Mistral layers.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from transformers import MistralConfig, MistralForCausalLM

NF4 = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0]
NF4 += [0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]
BLOCK, SUPER = 64, 256


class NF4Linear(nn.Module):
    def __init__(self, weight, rank, dtype):
        super().__init__()
        self.shape = weight.shape
        table = torch.tensor(NF4, device=weight.device)
        blocks = weight.float().reshape(-1, BLOCK)
        peak = blocks.abs().amax(1, keepdim=True).clamp(min=1e-8)
        middles = (table[1:] + table[:-1]) / 2
        codes = torch.bucketize(blocks / peak, middles).to(torch.uint8).flatten()
        self.register_buffer("codes", codes[::2] << 4 | codes[1::2])
        scales = F.pad(peak.flatten(), (0, -peak.numel() % SUPER)).view(-1, SUPER)
        mean = scales.mean()
        step = (scales - mean).abs().amax(1, keepdim=True) / 127
        self.register_buffer("scales", ((scales - mean) / step).round().to(torch.int8))
        self.register_buffer("steps", step)
        self.register_buffer("mean", mean)
        self.register_buffer("table", table.to(dtype))
        self.A = nn.Parameter(torch.randn(rank, self.shape[1], dtype=dtype) / rank)
        self.B = nn.Parameter(torch.zeros(self.shape[0], rank, dtype=dtype))

    @torch.no_grad()
    def dequantise(self):
        pairs = torch.stack([self.codes >> 4, self.codes & 15], dim=1).flatten()
        peak = (self.scales * self.steps + self.mean).flatten()
        values = self.table[pairs.int()].view(-1, BLOCK)
        return (values * peak[: len(values), None].to(values.dtype)).view(self.shape)

    def forward(self, x):
        return F.linear(x, self.dequantise()) + F.linear(F.linear(x, self.A), self.B)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    dtype = torch.bfloat16
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 256 or 1,
        use_cache=False,
    )
    model = MistralForCausalLM(config).to(dtype)
    model.requires_grad_(False)
    for layer in model.model.layers:
        for parent in (layer.self_attn, layer.mlp):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(parent, name, NF4Linear(child.weight.cuda(), args.rank, dtype).cuda())
    model.cuda().train()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    for update in range(args.updates):
        for _ in range(args.accumulation):
            ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).cuda()
            loss = model(input_ids=ids, labels=ids).loss / args.accumulation
            loss.backward()
        nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update} loss {loss.item() * args.accumulation:.3f}")


if __name__ == "__main__":
    main()
