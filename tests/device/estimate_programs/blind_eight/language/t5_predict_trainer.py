"""T5 on a toy task of sorting numbers with Seq2SeqTrainer: bf16, AdamW, generated answers at
evaluation.
"""

import argparse
import tempfile

import numpy as np
import torch
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)


class SortTask(torch.utils.data.Dataset):
    def __init__(self, rows, length, vocab, seed):
        self.rows, self.length, self.vocab, self.seed = rows, length, vocab, seed

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(self.seed + i)
        numbers = torch.randint(3, self.vocab, (self.length - 1,), generator=generator)
        end = torch.ones(1, dtype=torch.long)
        ids = torch.cat([numbers, end])
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "labels": torch.cat([numbers.sort().values[: self.length // 2], end]),
        }


def exact_match(prediction):
    guess, labels = prediction.predictions, prediction.label_ids
    width = min(guess.shape[1] - 1, labels.shape[1])
    return {"tokens_right": float(np.mean(guess[:, 1 : width + 1] == labels[:, :width]))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32128)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(1)
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=args.vocab,
            d_model=args.d_model,
            d_kv=64,
            d_ff=args.d_model * 4,
            num_layers=args.layers,
            num_heads=args.d_model // 64,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            decoder_start_token_id=0,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        training = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            predict_with_generate=True,
            generation_max_length=args.new_tokens,
            bf16=not args.fp32,
            max_steps=args.steps,
            eval_strategy="steps",
            eval_steps=args.steps // 2,
            logging_steps=1,
            learning_rate=3e-4,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Seq2SeqTrainer(
            model=model,
            args=training,
            train_dataset=SortTask(args.batch_size * args.steps, args.length, args.vocab, 0),
            eval_dataset=SortTask(args.batch_size, args.length, args.vocab, 10**6),
            compute_metrics=exact_match,
        )
        trainer.train()


if __name__ == "__main__":
    main()
