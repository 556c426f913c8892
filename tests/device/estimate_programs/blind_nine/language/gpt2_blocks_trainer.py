"""GPT-2 on blocks of text with Trainer in bf16: DataLoader workers, saving once, evaluation."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


class Blocks(Dataset):
    def __init__(self, count, block, vocab):
        self.tokens = torch.randint(0, vocab, (count * block,))
        self.block = block

    def __len__(self):
        return len(self.tokens) // self.block

    def __getitem__(self, i):
        ids = self.tokens[i * self.block : (i + 1) * self.block]
        return {"input_ids": ids, "labels": ids.clone()}


def accuracy(prediction):
    predicted, labels = prediction
    return {"accuracy": float((predicted[:, :-1] == labels[:, 1:]).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--n-embd", type=int, default=768)
    parser.add_argument("--n-layer", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(42)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=args.vocab,
            n_positions=args.block,
            n_embd=args.n_embd,
            n_layer=args.n_layer,
            n_head=args.n_embd // 64,
        )
    )
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size // 2,
                max_steps=args.steps,
                learning_rate=5e-5,
                weight_decay=0.01,
                bf16=not args.fp32,
                dataloader_num_workers=args.workers,
                logging_steps=2,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Blocks(args.batch_size * args.steps, args.block, args.vocab),
            eval_dataset=Blocks(args.batch_size, args.block, args.vocab),
            data_collator=default_data_collator,
            compute_metrics=accuracy,
            preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
        )
        result = trainer.train()
        trainer.save_model()
        print(result.metrics["train_loss"], trainer.evaluate())


if __name__ == "__main__":
    main()
