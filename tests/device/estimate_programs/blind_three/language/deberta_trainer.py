"""Natural language inference with DeBERTa-v2 and the Trainer: checkpointing, evaluation."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    Trainer,
    TrainingArguments,
)


class SentencePairs(Dataset):
    """Premise and hypothesis with segment ids, padded to a fixed length."""

    def __init__(self, n, length, vocab, seed):
        rng = np.random.default_rng(seed)
        self.examples = []
        for _ in range(n):
            first, second = rng.integers(length // 4, length // 2 - 2, size=2)
            used = int(first + second)
            ids = np.zeros(length, dtype=np.int64)
            ids[:used] = rng.integers(5, vocab, size=used)
            kinds = np.zeros(length, dtype=np.int64)
            kinds[first:used] = 1
            mask = (np.arange(length) < used).astype(np.int64)
            self.examples.append(
                {
                    "input_ids": ids,
                    "token_type_ids": kinds,
                    "attention_mask": mask,
                    "labels": int(rng.integers(3)),
                }
            )

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


def accuracy(prediction):
    guesses = prediction.predictions.argmax(axis=-1)
    return {"accuracy": float((guesses == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    config = DebertaV2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        relative_attention=True,
        position_buckets=128,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=2,
        num_labels=3,
    )
    torch.manual_seed(0)
    model = DebertaV2ForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=2 * args.batch_size,
            max_steps=args.steps,
            eval_strategy="steps",
            eval_steps=max(args.steps // 2, 1),
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            learning_rate=3e-5,
            weight_decay=0.01,
            max_grad_norm=1.0,
            lr_scheduler_type="linear",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=11,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=SentencePairs(
                args.steps * args.batch_size, args.length, args.vocab, seed=0
            ),
            eval_dataset=SentencePairs(3 * args.batch_size, args.length, args.vocab, seed=1),
            compute_metrics=accuracy,
        )
        result = trainer.train()
        print(result.training_loss, trainer.evaluate())


if __name__ == "__main__":
    main()
