"""Continues the training of a small Mixtral in bf16, with the router's auxiliary loss."""

import argparse

import torch
from transformers import MixtralConfig, MixtralForCausalLM, get_scheduler, set_seed


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=21)
    return parser.parse_args()


def make_model(args):
    config = MixtralConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=2 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=max(1, args.width // 256),
        num_local_experts=args.experts,
        num_experts_per_tok=2,
        max_position_embeddings=args.length,
        output_router_logits=True,
        router_aux_loss_coef=0.02,
        use_cache=False,
    )
    return MixtralForCausalLM(config)


def main():
    args = get_args()
    set_seed(args.seed)
    device = "cuda"
    model = make_model(args).to(device=device, dtype=torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count / 1e6:.0f} M parameters, {args.experts} experts")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    scheduler = get_scheduler(
        "cosine", optimizer, num_warmup_steps=1, num_training_steps=args.steps
    )

    model.train()
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).to(device)
        output = model(input_ids=ids, labels=ids)
        output.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        print(
            f"step {step} loss {output.loss.item():.4f} aux {output.aux_loss.item():.4f} "
            f"norm {norm.item():.2f} lr {scheduler.get_last_lr()[0]:.2e}"
        )

    model.eval()
    with torch.no_grad():
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).to(device)
        print(f"eval loss {model(input_ids=ids, labels=ids).loss.item():.4f}")


if __name__ == "__main__":
    main()
