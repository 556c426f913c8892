"""Fields of scanned forms with LayoutLM: accelerate, fp16, boxes beside the words, evaluation."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    LayoutLMConfig,
    LayoutLMForTokenClassification,
    get_linear_schedule_with_warmup,
)


def forms(count, length, vocab, labels):
    corner = torch.randint(0, 900, (count, length, 2))
    size = torch.randint(1, 100, (count, length, 2))
    boxes = torch.cat([corner, corner + size], dim=-1)
    ids = torch.randint(5, vocab, (count, length))
    return TensorDataset(ids, boxes, torch.randint(0, labels, (count, length)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--labels", type=int, default=13)
    parser.add_argument("--precision", default="fp16")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.precision, gradient_accumulation_steps=2)
    model = LayoutLMForTokenClassification(
        LayoutLMConfig(
            vocab_size=args.vocab,
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 64,
            intermediate_size=4 * args.width,
            num_labels=args.labels,
        )
    )
    train = DataLoader(
        forms(6 * args.batch_size, args.length, args.vocab, args.labels),
        batch_size=args.batch_size,
        shuffle=True,
    )
    held_out = DataLoader(
        forms(2 * args.batch_size, args.length, args.vocab, args.labels), batch_size=args.batch_size
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 10)
    model, optimizer, train, held_out, schedule = accelerator.prepare(
        model, optimizer, train, held_out, schedule
    )
    model.train()
    for ids, boxes, labels in train:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, bbox=boxes, labels=labels).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    right = total = 0
    with torch.inference_mode():
        for ids, boxes, labels in held_out:
            guess = model(input_ids=ids, bbox=boxes).logits.argmax(-1)
            guess, labels = accelerator.gather_for_metrics((guess, labels))
            right += (guess == labels).sum().item()
            total += labels.numel()
    accelerator.print(f"accuracy {right / total:.3f}")


if __name__ == "__main__":
    main()
