"""LoRA by hand on a frozen bfloat16 Llama 3, trained with Trainer: checkpointing, accumulation, a
cosine schedule, only the adapters are saved.
"""

import argparse
import math
import tempfile
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments, set_seed


class LoraLinear(nn.Module):
    def __init__(self, base, rank, alpha, dropout):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.dropout = nn.Dropout(dropout)
        self.A = nn.Parameter(torch.empty(rank, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, x):
        update = self.dropout(x).to(self.A.dtype) @ self.A.t() @ self.B.t()
        return self.base(x) + (self.scale * update).to(x.dtype)


def add_lora(model, names, rank, alpha, dropout):
    for p in model.parameters():
        p.requires_grad_(False)
    targets = [
        (parent, child)
        for parent in model.modules()
        for child, module in parent.named_children()
        if isinstance(module, nn.Linear) and child in names
    ]
    for parent, child in targets:
        setattr(parent, child, LoraLinear(getattr(parent, child), rank, alpha, dropout))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{len(targets)} adapters, {trained / 1e6:.2f} M trained parameters")


class Instructions(torch.utils.data.Dataset):
    def __init__(self, rows, length, vocab):
        self.ids = torch.randint(0, vocab, (rows, length))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.ids[i].clone()
        labels[: len(labels) // 4] = -100
        return {"input_ids": self.ids[i], "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 256,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    add_lora(model, {"q_proj", "k_proj", "v_proj", "o_proj"}, args.rank, 2 * args.rank, 0.05)
    model.enable_input_require_grads()
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            bf16=not args.fp32,
            learning_rate=2e-4,
            lr_scheduler_type="cosine",
            max_steps=args.steps,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        rows = args.batch_size * args.accumulation * args.steps
        data = Instructions(rows, args.length, args.vocab)
        Trainer(model=model, args=training, train_dataset=data).train()
        adapters = {n: p.cpu() for n, p in model.named_parameters() if p.requires_grad}
        torch.save(adapters, Path(folder) / "adapters.pt")


if __name__ == "__main__":
    main()
