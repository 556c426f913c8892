"""Whisper with Seq2SeqTrainer: fp16, checkpointing, accumulation, labels padded per batch."""

import argparse
import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperConfig,
    WhisperForConditionalGeneration,
)


class Speech(Dataset):
    def __init__(self, count, mels, frames, longest, vocab):
        self.count, self.mels, self.frames = count, mels, frames
        self.longest, self.vocab = longest, vocab

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = random.Random(i)
        words = [rng.randrange(10, self.vocab) for _ in range(rng.randint(4, self.longest))]
        generator = torch.Generator().manual_seed(i)
        return {
            "input_features": torch.randn(self.mels, self.frames, generator=generator),
            "labels": words,
        }


def collate(rows):
    longest = max(len(row["labels"]) for row in rows)
    labels = torch.full((len(rows), longest), -100)
    for line, row in zip(labels, rows):
        line[: len(row["labels"])] = torch.tensor(row["labels"])
    features = torch.stack([row["input_features"] for row in rows])
    return {"input_features": features, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=51865)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=args.vocab,
        num_mel_bins=80,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=4 * args.d_model,
        decoder_ffn_dim=4 * args.d_model,
        max_source_positions=args.frames // 2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config)
    model.config.use_cache = False
    with tempfile.TemporaryDirectory() as folder:
        training = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            fp16=not args.no_fp16,
            learning_rate=1e-5,
            warmup_steps=1,
            max_steps=args.steps,
            logging_steps=1,
            save_strategy="no",
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
        )
        rows = args.batch_size * args.accumulation * args.steps
        trainer = Seq2SeqTrainer(
            model=model,
            args=training,
            train_dataset=Speech(rows, 80, args.frames, args.longest, args.vocab),
            data_collator=collate,
        )
        trainer.train()


if __name__ == "__main__":
    main()
