"""SegFormer with Trainer in bf16: logits are scaled up to the masks for the metrics."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Streets(Dataset):
    def __init__(self, count, size, classes, seed):
        self.count, self.size, self.classes, self.seed = count, size, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(self.seed + i)
        image = torch.randn(3, self.size, self.size, generator=generator)
        labels = torch.randint(
            0, self.classes, (self.size // 8, self.size // 8), generator=generator
        )
        labels = labels.repeat_interleave(8, 0).repeat_interleave(8, 1)
        labels[:4] = 255
        return {"pixel_values": image, "labels": labels}


def smaller(logits, labels):
    """Keeps only the guessed class of each place, so that evaluation does not keep all logits."""
    logits = torch.nn.functional.interpolate(
        logits, size=labels.shape[-2:], mode="bilinear", align_corners=False
    )
    return logits.argmax(dim=1)


def metrics(prediction):
    labels = prediction.label_ids
    known = labels != 255
    return {"accuracy": float(np.mean(prediction.predictions[known] == labels[known]))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--widths", type=int, nargs=4, default=[64, 128, 320, 512])
    parser.add_argument("--depths", type=int, nargs=4, default=[2, 2, 2, 2])
    parser.add_argument("--classes", type=int, default=35)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(0)
    config = SegformerConfig(
        depths=args.depths,
        hidden_sizes=args.widths,
        decoder_hidden_size=256,
        num_labels=args.classes,
        semantic_loss_ignore_index=255,
    )
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            learning_rate=6e-5,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            bf16=not args.fp32,
            max_steps=args.steps,
            eval_strategy="steps",
            eval_steps=2,
            eval_accumulation_steps=2,
            logging_steps=1,
            save_strategy="no",
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=SegformerForSemanticSegmentation(config),
            args=training,
            train_dataset=Streets(args.batch_size * args.steps, args.size, args.classes, 0),
            eval_dataset=Streets(args.batch_size, args.size, args.classes, 10**6),
            compute_metrics=metrics,
            preprocess_logits_for_metrics=smaller,
        )
        trainer.train()


if __name__ == "__main__":
    main()
