"""Summaries with mT5 and Seq2SeqTrainer: bf16, Adafactor, generation in the evaluation."""

import argparse
import tempfile

import torch
from transformers import (
    GenerationConfig,
    MT5Config,
    MT5ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


def make_examples(count, source, target, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    examples = []
    for _ in range(count):
        n = int(torch.randint(source // 2, source + 1, (1,), generator=g))
        m = int(torch.randint(target // 2, target + 1, (1,), generator=g))
        examples.append(
            {
                "input_ids": torch.randint(3, vocab, (n,), generator=g),
                "labels": torch.randint(3, vocab, (m,), generator=g),
            }
        )
    return examples


def collate(batch):
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad([e["input_ids"] for e in batch], batch_first=True, padding_value=0)
    labels = pad([e["labels"] for e in batch], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=96)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(7)
    config = MT5Config(
        vocab_size=args.vocab,
        d_model=args.width,
        d_kv=64,
        d_ff=2 * args.width,
        num_layers=args.layers,
        num_heads=args.width // 64,
        decoder_start_token_id=0,
    )
    model = MT5ForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=0, eos_token_id=1, pad_token_id=0
    )
    folder = tempfile.mkdtemp()
    training = Seq2SeqTrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        bf16=not args.fp32,
        max_steps=4,
        predict_with_generate=True,
        generation_max_length=args.new_tokens,
        generation_num_beams=2,
        save_strategy="no",
        logging_steps=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=training,
        train_dataset=make_examples(6 * args.batch_size, args.source, args.target, args.vocab, 0),
        eval_dataset=make_examples(args.batch_size, args.source, args.target, args.vocab, 1),
        data_collator=collate,
    )
    trainer.train()
    out = trainer.predict(make_examples(args.batch_size, args.source, args.target, args.vocab, 2))
    print(out.predictions.shape, out.metrics["test_loss"])


if __name__ == "__main__":
    main()
