"""LoRA on every linear layer of an EXAONE 4 decoder, written by hand: frozen bf16 base, float32
adapters, activation checkpointing, adapters saved at the end.
"""

import argparse
import io
import math

import torch
from torch import nn
from transformers import Exaone4Config, Exaone4ForCausalLM


class LoraLinear(nn.Module):
    def __init__(self, base, rank, alpha, dropout):
        super().__init__()
        self.base = base
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        device = base.weight.device
        self.down = nn.Parameter(torch.empty(rank, base.in_features, device=device))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device=device))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.scale = alpha / rank
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        result = self.base(x)
        update = self.dropout(x).to(self.down.dtype) @ self.down.t() @ self.up.t()
        return result + (update * self.scale).to(result.dtype)


def add_lora(model, targets, rank, alpha, dropout):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(module, name, LoraLinear(child, rank, alpha, dropout))


def lora_state(model):
    return {n: p.detach().cpu() for n, p in model.named_parameters() if p.requires_grad}


def batches(count, batch_size, length, vocab, device):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        ids = torch.randint(5, vocab, (batch_size, length), generator=generator)
        labels = ids.clone()
        for row in range(batch_size):
            prompt = int(torch.randint(length // 8, length // 2, (1,), generator=generator))
            labels[row, :prompt] = -100
        yield ids.to(device), labels.to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=102400)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)

    config = Exaone4Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 256,
        max_position_embeddings=args.length,
        sliding_window=None,
        sliding_window_pattern=None,
        layer_types=["full_attention"] * args.layers,
        tie_word_embeddings=True,
        use_cache=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(args.device):
        model = Exaone4ForCausalLM(config)
    torch.set_default_dtype(torch.float32)

    model.requires_grad_(False)
    targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    add_lora(model, targets, args.rank, 2 * args.rank, dropout=0.05)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model.train()

    trainable = [p for p in model.parameters() if p.requires_grad]
    total = sum(p.numel() for p in model.parameters())
    share = 100 * sum(p.numel() for p in trainable) / total
    print(f"{total / 1e6:.0f} M parameters, {share:.2f} % trainable")

    optimizer = torch.optim.AdamW(trainable, lr=2e-4, weight_decay=0.0)
    data = batches(args.steps, args.batch_size, args.length, args.vocab, args.device)
    for step, (ids, labels) in enumerate(data):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(trainable, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")

    buffer = io.BytesIO()
    torch.save(lora_state(model), buffer)
    print(f"adapter file {buffer.tell() / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
