"""Questions about passages with RoBERTa and Trainer in fp16; the best spans are found after
training with `predict`.
"""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    RobertaConfig,
    RobertaForQuestionAnswering,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


class Passages(Dataset):
    def __init__(self, rows, length, vocab, seed, labelled=True):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (rows, length), generator=generator)
        used = torch.randint(length // 2, length + 1, (rows,), generator=generator)
        self.mask = (torch.arange(length)[None] < used[:, None]).long()
        self.ids[self.mask == 0] = 1
        self.start = (torch.rand(rows, generator=generator) * (used - 8)).long()
        self.end = self.start + torch.randint(0, 8, (rows,), generator=generator)
        self.labelled = labelled

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        row = {"input_ids": self.ids[i], "attention_mask": self.mask[i]}
        if self.labelled:
            row |= {"start_positions": self.start[i], "end_positions": self.end[i]}
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--predict-batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50265)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    config = RobertaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        max_position_embeddings=args.length + 2,
        type_vocab_size=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=RobertaForQuestionAnswering(config),
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.predict_batch_size,
                fp16=not args.no_fp16,
                learning_rate=3e-5,
                max_steps=args.steps,
                logging_steps=2,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Passages(args.batch_size * args.steps, args.length, args.vocab, 0),
            data_collator=default_data_collator,
        )
        trainer.train()
        test = Passages(2 * args.predict_batch_size, args.length, args.vocab, 1, labelled=False)
        start, end = trainer.predict(test).predictions
    print("first spans", [(int(s), int(e)) for s, e in zip(start.argmax(1), end.argmax(1))][:3])


if __name__ == "__main__":
    main()
