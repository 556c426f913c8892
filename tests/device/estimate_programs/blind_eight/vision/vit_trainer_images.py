"""Image classification with a ViT and Trainer: fp16, images made by worker processes, accuracy by
compute_metrics.
"""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed


class Images(Dataset):
    def __init__(self, count, size, classes, seed):
        self.count, self.size, self.classes, self.seed = count, size, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed + i)
        pixels = rng.integers(0, 256, (3, self.size, self.size), dtype=np.uint8)
        pixels = torch.from_numpy(pixels).float().div_(127.5).sub_(1.0)
        return {"pixel_values": pixels, "labels": i % self.classes}


def compute_metrics(prediction):
    guess = np.argmax(prediction.predictions, axis=1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    set_seed(1)
    config = ViTConfig(
        image_size=args.size,
        patch_size=16,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=args.classes,
        hidden_dropout_prob=0.1,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=ViTForImageClassification(config),
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size,
                fp16=not args.no_fp16,
                max_steps=args.steps,
                eval_strategy="steps",
                eval_steps=args.steps,
                dataloader_num_workers=4,
                remove_unused_columns=False,
                learning_rate=2e-4,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Images(args.batch_size * args.steps, args.size, args.classes, 0),
            eval_dataset=Images(args.batch_size * 3 // 2, args.size, args.classes, 10**6),
            compute_metrics=compute_metrics,
        )
        trainer.train()


if __name__ == "__main__":
    main()
