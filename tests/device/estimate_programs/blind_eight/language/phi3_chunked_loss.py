"""Phi-3 with a large vocabulary: the logits are never whole; the loss goes over pieces of the
sequence, each recomputed in the backward pass.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Phi3Config, Phi3Model


class ChunkedLM(torch.nn.Module):
    def __init__(self, config, pieces):
        super().__init__()
        self.body = Phi3Model(config)
        self.head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.pieces = pieces

    def piece_loss(self, hidden, targets):
        logits = self.head(hidden).float()
        return F.cross_entropy(logits, targets, reduction="sum")

    def forward(self, ids):
        hidden = self.body(input_ids=ids).last_hidden_state[:, :-1].flatten(0, 1)
        targets = ids[:, 1:].flatten()
        total = hidden.new_zeros((), dtype=torch.float32)
        for h, t in zip(hidden.chunk(self.pieces), targets.chunk(self.pieces)):
            total = total + checkpoint(self.piece_loss, h, t, use_reentrant=False)
        return total / targets.numel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--pieces", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Phi3Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 96,
        num_key_value_heads=args.hidden // 96,
        max_position_embeddings=4096,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = ChunkedLM(config, args.pieces).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    for step in range(args.steps):
        ids = torch.randint(3, args.vocab, (args.batch_size, args.length), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
