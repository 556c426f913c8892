"""Instruction tuning of a Falcon model with accelerate; the loss leaves out the prompts."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import FalconConfig, FalconForCausalLM, get_linear_schedule_with_warmup


class Instructions(Dataset):
    def __init__(self, n, max_len, vocab):
        self.n, self.max_len, self.vocab = n, max_len, vocab

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(idx)
        prompt = int(torch.randint(16, self.max_len // 2, (1,), generator=g))
        answer = int(torch.randint(16, self.max_len // 2, (1,), generator=g))
        ids = torch.randint(1, self.vocab, (prompt + answer,), generator=g)
        labels = ids.clone()
        labels[:prompt] = -100
        return ids, labels


def pad_left(batch):
    longest = max(len(ids) for ids, _ in batch)
    input_ids = torch.zeros(len(batch), longest, dtype=torch.long)
    labels = torch.full_like(input_ids, -100)
    mask = torch.zeros_like(input_ids)
    for i, (ids, lab) in enumerate(batch):
        input_ids[i, longest - len(ids) :] = ids
        labels[i, longest - len(ids) :] = lab
        mask[i, longest - len(ids) :] = 1
    return dict(input_ids=input_ids, labels=labels, attention_mask=mask)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--max-len", type=int, default=768)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=10)
    p.add_argument("--vocab", type=int, default=65024)
    p.add_argument("--mixed", default="bf16")
    opt = p.parse_args()
    torch.manual_seed(99)
    acc = Accelerator(gradient_accumulation_steps=4, mixed_precision=opt.mixed)
    model = FalconForCausalLM(
        FalconConfig(
            vocab_size=opt.vocab,
            hidden_size=opt.hidden,
            num_hidden_layers=opt.layers,
            num_attention_heads=opt.hidden // 64,
            multi_query=True,
            parallel_attn=True,
            use_cache=False,
        )
    )
    optim = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=torch.cuda.is_available())
    sched = get_linear_schedule_with_warmup(optim, 1, 5)
    dl = DataLoader(
        Instructions(8 * opt.batch, opt.max_len, opt.vocab),
        opt.batch,
        shuffle=True,
        collate_fn=pad_left,
        num_workers=2,
    )
    model, optim, dl, sched = acc.prepare(model, optim, dl, sched)
    model.train()
    for i, batch in enumerate(dl):
        with acc.accumulate(model):
            out = model(**batch)
            acc.backward(out.loss)
            if acc.sync_gradients:
                norm = acc.clip_grad_norm_(model.parameters(), 0.5)
                acc.print(i, out.loss.item(), float(norm))
            optim.step()
            sched.step()
            optim.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
