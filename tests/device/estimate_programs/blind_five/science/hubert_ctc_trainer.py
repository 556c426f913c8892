"""Speech recognition: HuBERT with CTC in the HF Trainer, fp16, checkpointing, accumulation."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import HubertConfig, HubertForCTC, Trainer, TrainingArguments, set_seed


class Utterances(Dataset):
    def __init__(self, n, seconds):
        self.n, self.samples = n, int(16000 * seconds)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        length = int(torch.randint(self.samples // 2, self.samples + 1, (1,), generator=g))
        words = int(torch.randint(4, 12, (1,), generator=g))
        return {
            "input_values": torch.randn(length, generator=g),
            "labels": torch.randint(1, 32, (words,), generator=g),
        }


def collate(rows):
    pad = torch.nn.utils.rnn.pad_sequence
    audio = [row["input_values"] for row in rows]
    mask = pad([torch.ones(len(a), dtype=torch.long) for a in audio], batch_first=True)
    return {
        "input_values": pad(audio, batch_first=True),
        "attention_mask": mask,
        "labels": pad([row["labels"] for row in rows], batch_first=True, padding_value=-100),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    set_seed(16)
    config = HubertConfig(
        vocab_size=32,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        layerdrop=0.0,
        mask_time_prob=0.05,
    )
    model = HubertForCTC(config)
    model.freeze_feature_encoder()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                folder,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=2,
                gradient_checkpointing=True,
                fp16=not args.no_fp16,
                learning_rate=1e-4,
                warmup_steps=1,
                max_steps=3,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Utterances(8 * args.batch_size, args.seconds),
            data_collator=collate,
        )
        trainer.train()


if __name__ == "__main__":
    main()
