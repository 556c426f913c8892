"""Dialogue with an encoder and decoder of Blenderbot Small: batches of a number of tokens, inverse
square root schedule, half of the epoch with a frozen encoder.
"""

import argparse
import random

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import BlenderbotSmallConfig, BlenderbotSmallForConditionalGeneration


def dialogues(count, longest, vocab, seed):
    rng = random.Random(seed)
    for _ in range(count):
        context = rng.randint(longest // 8, longest)
        reply = rng.randint(4, max(longest // 2, 5))
        yield (
            [rng.randrange(4, vocab) for _ in range(context)],
            [rng.randrange(4, vocab) for _ in range(reply)],
        )


def token_batches(pairs, max_tokens):
    """Pairs of like length together, each batch at most max_tokens with its padding."""
    batch, widest = [], 0
    for pair in sorted(pairs, key=lambda pair: len(pair[0])):
        size = len(pair[0]) + len(pair[1])
        widest = max(widest, size)
        if batch and widest * (len(batch) + 1) > max_tokens:
            yield batch
            batch, widest = [], size
        batch.append(pair)
    if batch:
        yield batch


def padded(rows, value, device):
    width = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (width - len(row)) for row in rows], device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pairs", type=int, default=220)
    parser.add_argument("--max-tokens", type=int, default=16384)
    parser.add_argument("--longest", type=int, default=480)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=54944)
    parser.add_argument("--lr", type=float, default=1e-4)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = BlenderbotSmallConfig(
        vocab_size=args.vocab,
        max_position_embeddings=512,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=args.d_model * 4,
        decoder_ffn_dim=args.d_model * 4,
        use_cache=False,
    )
    model = BlenderbotSmallForConditionalGeneration(config).to(args.device)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    scheduler = LambdaLR(optimizer, lambda n: min((n + 1) / 4, (4 / (n + 1)) ** 0.5))

    batches = list(
        token_batches(dialogues(args.pairs, args.longest, args.vocab, 0), args.max_tokens)
    )
    random.Random(1).shuffle(batches)
    print(f"{len(batches)} batches of {[len(batch) for batch in batches]} pairs")
    encoder_layers = model.get_encoder().layers
    encoder_layers.requires_grad_(False)
    for step, batch in enumerate(batches):
        if step == len(batches) // 2:
            encoder_layers.requires_grad_(True)
        source = padded([context for context, _ in batch], config.pad_token_id, args.device)
        labels = padded([[*reply, config.eos_token_id] for _, reply in batch], -100, args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = model(
                input_ids=source,
                attention_mask=source.ne(config.pad_token_id).long(),
                labels=labels,
            ).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        scheduler.step()
        print(f"step {step} {tuple(source.shape)} -> {tuple(labels.shape)} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
