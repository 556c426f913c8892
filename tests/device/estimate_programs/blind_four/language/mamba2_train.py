"""Mamba-2 from transformers on its plain torch path, in float32 with tf32 products."""

import argparse

import torch
from transformers import Mamba2Config, Mamba2ForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--chunk", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(6)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Mamba2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        state_size=64,
        num_hidden_layers=args.layers,
        head_dim=64,
        num_heads=2 * args.width // 64,
        expand=2,
        n_groups=1,
        chunk_size=args.chunk,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=True,
    )
    model = Mamba2ForCausalLM(config).to(device)
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and "conv" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1 or "conv" in n]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=4e-4,
        betas=(0.9, 0.95),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-4, total_steps=args.steps + 1)
    generator = torch.Generator().manual_seed(1)
    for step in range(args.steps):
        # The second half repeats the first: the model has to remember.
        half = torch.randint(
            1, args.vocab, (args.batch_size, args.length // 2), generator=generator
        )
        ids = torch.cat([half, half], dim=1).to(device, non_blocking=True)
        out = model(input_ids=ids, labels=ids)
        optimizer.zero_grad(set_to_none=True)
        out.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"step {step}: loss {out.loss.item():.3f} norm {norm.item():.2f}")


if __name__ == "__main__":
    main()
