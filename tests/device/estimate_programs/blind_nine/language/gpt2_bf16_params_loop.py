"""A GPT-2 medium whose weights are bfloat16 themselves, with reentrant checkpointing per block."""

import argparse

import torch
from transformers import AutoModelForCausalLM, GPT2Config


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--seq", type=int, default=1024)
    ap.add_argument("--embd", type=int, default=1024)
    ap.add_argument("--layer", type=int, default=24)
    ap.add_argument("--vocab", type=int, default=50257)
    ap.add_argument("--iters", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=args.vocab, n_embd=args.embd, n_layer=args.layer, n_head=args.embd // 64
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    model = model.cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-5, foreach=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-5, total_steps=args.iters + 1)
    losses = []
    for it in range(args.iters):
        x = torch.randint(args.vocab, (args.bs, args.seq), device="cuda")
        out = model(input_ids=x, labels=x, use_cache=False)
        out.loss.backward()
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=False)
        losses.append(out.loss.item())
        print(it, losses[-1])


if __name__ == "__main__":
    main()
