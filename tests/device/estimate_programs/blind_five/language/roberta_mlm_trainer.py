"""Masked language modelling with RoBERTa and the HF Trainer in fp16, with dynamic masks."""

import argparse
import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaForMaskedLM, Trainer, TrainingArguments, set_seed

PAD, MASK = 1, 4


class Lines(Dataset):
    def __init__(self, count, longest, vocab):
        rng = random.Random(0)
        self.rows = [
            [rng.randrange(5, vocab) for _ in range(rng.randint(longest // 4, longest))]
            for _ in range(count)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i]}


class MaskingCollator:
    def __init__(self, vocab, probability=0.15, multiple=8):
        self.vocab, self.probability, self.multiple = vocab, probability, multiple

    def __call__(self, examples):
        longest = max(len(e["input_ids"]) for e in examples)
        longest = (longest + self.multiple - 1) // self.multiple * self.multiple
        ids = torch.full((len(examples), longest), PAD)
        for row, example in enumerate(examples):
            ids[row, : len(example["input_ids"])] = torch.tensor(example["input_ids"])
        attention = (ids != PAD).long()
        labels = ids.clone()
        chosen = torch.bernoulli(torch.full(labels.shape, self.probability)).bool()
        chosen &= attention.bool()
        labels[~chosen] = -100
        replaced = torch.bernoulli(torch.full(labels.shape, 0.8)).bool() & chosen
        ids[replaced] = MASK
        shuffled = torch.bernoulli(torch.full(labels.shape, 0.5)).bool() & chosen & ~replaced
        ids[shuffled] = torch.randint(5, self.vocab, labels.shape)[shuffled]
        return {"input_ids": ids, "attention_mask": attention, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50265)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    set_seed(0)
    config = RobertaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        max_position_embeddings=args.longest + 2,
    )
    model = RobertaForMaskedLM(config)
    print(f"{model.num_parameters() / 1e6:.1f} M parameters")
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=2,
            learning_rate=5e-5,
            warmup_steps=2,
            weight_decay=0.01,
            max_steps=4,
            fp16=not args.no_fp16,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=Lines(10 * args.batch_size, args.longest, args.vocab),
            data_collator=MaskingCollator(args.vocab),
        )
        result = trainer.train()
    print("loss", result.training_loss)


if __name__ == "__main__":
    main()
