"""Supervised fine-tuning on packed conversations: block-diagonal mask, checkpointing, pure bf16."""

import argparse
import random

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import MistralConfig, MistralForCausalLM, get_constant_schedule_with_warmup


class Packed(Dataset):
    """Documents are laid end to end until a row is full; positions start anew with each."""

    def __init__(self, rows, length, vocab, seed=0):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(rows):
            document = torch.zeros(length, dtype=torch.long)
            start, number = 0, 0
            while start < length:
                size = min(rng.randint(64, 400), length - start)
                document[start : start + size] = number
                start, number = start + size, number + 1
            self.rows.append((torch.randint(2, vocab, (length,)), document))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def positions_of(document):
    at = torch.arange(document.size(1), device=document.device).expand_as(document)
    starts = torch.ones_like(document, dtype=torch.bool)
    starts[:, 1:] = document[:, 1:] != document[:, :-1]
    return at - torch.where(starts, at, 0).cummax(dim=1).values


def mask_of(document, dtype):
    same = document[:, :, None] == document[:, None, :]
    causal = torch.ones(same.shape[-2:], dtype=torch.bool, device=document.device).tril()
    mask = torch.zeros(same.shape, dtype=dtype, device=document.device)
    return mask.masked_fill(~(same & causal), torch.finfo(dtype).min)[:, None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--lr", type=float, default=1e-5)
    args = parser.parse_args()
    torch.manual_seed(4)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 7 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128,
        num_key_value_heads=max(1, args.width // 512),
        sliding_window=None,
        use_cache=False,
    )
    model = MistralForCausalLM(config).to(device, torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, foreach=False)
    schedule = get_constant_schedule_with_warmup(optimizer, 2)
    loader = DataLoader(Packed(4 * args.batch_size, args.length, args.vocab), args.batch_size)
    for step, (ids, document) in enumerate(loader):
        ids, document = ids.to(device), document.to(device)
        labels = ids.masked_fill(document % 3 == 0, -100)
        out = model(
            input_ids=ids,
            attention_mask=mask_of(document, torch.bfloat16),
            position_ids=positions_of(document),
            labels=labels,
        )
        out.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"{step}: loss {out.loss.item():.3f}, norm {norm.item():.2f}")


if __name__ == "__main__":
    main()
