"""A Swin transformer on images with Trainer: bf16, evaluation with accuracy, workers."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import SwinConfig, SwinForImageClassification, Trainer, TrainingArguments


class Pets(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        pixels = rng.standard_normal((3, self.size, self.size), dtype=np.float32)
        return {"pixel_values": torch.from_numpy(pixels), "labels": i % self.classes}


def metrics(result):
    return {"accuracy": float((result.predictions.argmax(-1) == result.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--embed", type=int, default=96)
    parser.add_argument("--depths", type=int, nargs=4, default=[2, 2, 6, 2])
    parser.add_argument("--window", type=int, default=7)
    parser.add_argument("--classes", type=int, default=37)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    heads = [max(args.embed * 2**i // 32, 1) for i in range(4)]
    model = SwinForImageClassification(
        SwinConfig(
            image_size=args.size,
            embed_dim=args.embed,
            depths=args.depths,
            num_heads=heads,
            window_size=args.window,
            num_labels=args.classes,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size,
                max_steps=args.steps,
                bf16=not args.fp32,
                eval_strategy="steps",
                eval_steps=args.steps // 2,
                dataloader_num_workers=2,
                remove_unused_columns=False,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Pets(args.batch_size * args.steps, args.size, args.classes),
            eval_dataset=Pets(args.batch_size * 2, args.size, args.classes),
            compute_metrics=metrics,
        )
        trainer.train()


if __name__ == "__main__":
    main()
