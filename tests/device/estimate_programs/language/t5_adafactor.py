"""Fine-tunes T5 for summaries with Adafactor; padded labels are ignored in the loss."""

import argparse

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration
from transformers.optimization import AdafactorSchedule


def make_batch(args, vocab, generator):
    source = torch.randint(2, vocab, (args.batch_size, args.source), generator=generator)
    target = torch.randint(2, vocab, (args.batch_size, args.target), generator=generator)
    source_lengths = torch.randint(
        args.source // 2, args.source + 1, (args.batch_size, 1), generator=generator
    )
    target_lengths = torch.randint(
        args.target // 4, args.target + 1, (args.batch_size, 1), generator=generator
    )
    attention_mask = (torch.arange(args.source)[None] < source_lengths).long()
    target[torch.arange(args.target)[None] >= target_lengths] = -100
    return {
        "input_ids": source * attention_mask,
        "attention_mask": attention_mask,
        "labels": target,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=128)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)

    config = T5Config(
        d_model=args.width,
        d_ff=4 * args.width,
        d_kv=64,
        num_heads=args.width // 64,
        num_layers=args.layers,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).cuda()
    model.config.use_cache = False
    optimizer = Adafactor(
        model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True, lr=None
    )
    scheduler = AdafactorSchedule(optimizer)

    model.train()
    for step in range(args.steps):
        batch = {k: v.cuda() for k, v in make_batch(args, config.vocab_size, generator).items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        batch = {k: v.cuda() for k, v in make_batch(args, config.vocab_size, generator).items()}
        logits = model(**batch).logits
        kept = batch["labels"] != -100
        right = ((logits.argmax(-1) == batch["labels"]) & kept).sum()
        print(f"token accuracy {(right / kept.sum()).item():.4f}")


if __name__ == "__main__":
    main()
