"""MambaForCausalLM without the fast kernels: the scan goes step by step through the sequence."""

import argparse

import torch
from transformers import MambaConfig, MambaForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50280)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = MambaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        state_size=16,
        num_hidden_layers=args.layers,
        use_cache=False,
    )
    model = MambaForCausalLM(config).to("cuda")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
