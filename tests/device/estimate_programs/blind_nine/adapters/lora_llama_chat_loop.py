"""LoRA by hand on every linear layer of a bf16 Llama: plain loop, checkpointing, clipping."""

import argparse
import math

import torch
import torch.nn as nn
from transformers import AutoModelForCausalLM, LlamaConfig


class LoRALinear(nn.Module):
    def __init__(self, base, r, alpha, dropout):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.empty(r, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.dropout = nn.Dropout(dropout)
        self.scale = alpha / r

    def forward(self, x):
        low = self.dropout(x).to(self.A.dtype) @ self.A.T @ self.B.T
        return self.base(x) + (low * self.scale).to(x.dtype)


def inject(model, names, r, alpha, dropout):
    for p in model.parameters():
        p.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name in names:
                setattr(module, name, LoRALinear(child, r, alpha, dropout))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 256,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    projections = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    inject(model, projections, args.rank, 2 * args.rank, 0.05)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    trainable = [p for p in model.parameters() if p.requires_grad]
    print(f"{sum(p.numel() for p in trainable):,} trained")
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)
    model.train()
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length))
        labels = ids.clone()
        labels[:, : args.length // 2] = -100
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
