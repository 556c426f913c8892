"""LoRA written by hand on Phi-3 in bf16: wrapped linear layers, checkpointing, paged through
micro batches.
"""

import argparse
import math

import torch
import torch.nn as nn
from transformers import Phi3Config, Phi3ForCausalLM


class LoraLinear(nn.Module):
    def __init__(self, base, rank, alpha, dropout):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad = False
        kwargs = {"device": base.weight.device, "dtype": torch.float32}
        self.a = nn.Parameter(torch.empty(rank, base.in_features, **kwargs))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank, **kwargs))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.dropout = nn.Dropout(dropout)
        self.scale = alpha / rank

    def forward(self, x):
        low = self.dropout(x) @ self.a.T.to(x.dtype) @ self.b.T.to(x.dtype)
        return self.base(x) + self.scale * low


def add_lora(model, names, rank):
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if name in names and isinstance(layer, nn.Linear):
                setattr(module, name, LoraLinear(layer, rank, 2 * rank, 0.05))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--micro", type=int, default=2)
    parser.add_argument("--length", type=int, default=1536)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=32064)
    parser.add_argument("--rank", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Phi3Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=args.width // 128,
        max_position_embeddings=args.length,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Phi3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.requires_grad_(False)
    add_lora(model, {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}, args.rank)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    print(sum(p.numel() for p in trained), "of", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    for step in range(4):
        ids = torch.randint(3, args.vocab, (args.batch_size, args.length)).to("cuda")
        total = 0.0
        for part in ids.split(args.micro):
            loss = model(input_ids=part, labels=part).loss * len(part) / len(ids)
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        print(step, total)


if __name__ == "__main__":
    main()
