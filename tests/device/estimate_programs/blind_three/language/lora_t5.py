"""LoRA on the attention of a frozen T5 with peft, then generation with the adapted model."""

import argparse

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration


def make_rows(n, source, target, vocab):
    rows = []
    for _ in range(n):
        s = int(torch.randint(source // 2, source + 1, ()))
        t = int(torch.randint(target // 2, target + 1, ()))
        rows.append((torch.randint(2, vocab, (s,)), torch.randint(2, vocab, (t,))))
    return rows


def collate(rows):
    sources, targets = zip(*rows)
    ids = pad_sequence(sources, batch_first=True, padding_value=0)
    labels = pad_sequence(targets, batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=128)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32128)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    config = T5Config(
        vocab_size=args.vocab,
        d_model=args.width,
        d_kv=64,
        d_ff=int(2.5 * args.width),
        num_layers=args.layers,
        num_heads=args.width // 64,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
    )
    base = T5ForConditionalGeneration(config)
    model = get_peft_model(
        base,
        LoraConfig(
            task_type=TaskType.SEQ_2_SEQ_LM,
            r=args.rank,
            lora_alpha=2 * args.rank,
            lora_dropout=0.05,
            target_modules=["q", "v"],
            modules_to_save=["lm_head"],
        ),
    ).to(device)
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    rows = make_rows(args.steps * args.batch_size, args.source, args.target, args.vocab)
    loader = DataLoader(rows, args.batch_size, shuffle=True, collate_fn=collate)

    model.train()
    for step, batch in enumerate(loader):
        batch = {name: value.to(device) for name, value in batch.items()}
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: {loss.item():.3f}")

    model.eval()
    batch = collate(make_rows(args.batch_size, args.source, args.target, args.vocab))
    with torch.no_grad():
        written = model.generate(
            input_ids=batch["input_ids"].to(device),
            attention_mask=batch["attention_mask"].to(device),
            min_new_tokens=args.new_tokens,
            max_new_tokens=args.new_tokens,
        )
    print("generated", tuple(written.shape))


if __name__ == "__main__":
    main()
