"""Prompt tuning of a frozen GPT-2, then prefixes in front of its keys and values, with peft."""

import argparse

import torch
from peft import PrefixTuningConfig, PromptTuningConfig, TaskType, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel


def tune(model, args, device, lr):
    trained = [p for p in model.parameters() if p.requires_grad]
    print(f"{sum(p.numel() for p in trained)} parameters are trained")
    optimizer = torch.optim.Adam(trained, lr=lr, fused=device.type == "cuda")
    model.train()
    for step in range(args.steps):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length))
        lengths = torch.randint(args.length // 2, args.length + 1, (args.batch_size, 1))
        mask = (torch.arange(args.length) < lengths).long()
        labels = torch.full_like(ids, -100)
        labels.scatter_(1, lengths - 1, ids.gather(1, lengths - 1))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                labels=labels.to(device),
            ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--virtual", type=int, default=40)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=args.length + args.virtual,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        use_cache=False,
    )
    prompts = PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=args.virtual)
    tune(get_peft_model(GPT2LMHeadModel(config), prompts).to(device), args, device, lr=0.03)

    prefixes = PrefixTuningConfig(
        task_type=TaskType.CAUSAL_LM,
        num_virtual_tokens=args.virtual,
        prefix_projection=True,
        encoder_hidden_size=512,
    )
    tune(get_peft_model(GPT2LMHeadModel(config), prefixes).to(device), args, device, lr=1e-3)


if __name__ == "__main__":
    main()
