"""Long documents with BigBird's block-sparse attention: plain loop, bf16 autocast, gradient
clipping.
"""

import argparse

import torch
from transformers import BigBirdConfig, BigBirdForSequenceClassification


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--block", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = BigBirdForSequenceClassification(
        BigBirdConfig(
            vocab_size=args.vocab,
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 64,
            intermediate_size=4 * args.width,
            max_position_embeddings=args.length,
            attention_type="block_sparse",
            block_size=args.block,
            num_random_blocks=3,
            num_labels=8,
        )
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=4)
    for step in range(4):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length))
        labels = torch.randint(0, 8, (args.batch_size,))
        with torch.autocast(device, dtype=torch.bfloat16):
            out = model(input_ids=ids.to(device), labels=labels.to(device))
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, out.loss.item())


if __name__ == "__main__":
    main()
