"""Pre-training of a masked autoencoder for images: ViTMAE with the HF Trainer in bf16."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from torchvision.transforms import v2
from transformers import Trainer, TrainingArguments, ViTMAEConfig, ViTMAEForPreTraining, set_seed


class Pictures(Dataset):
    def __init__(self, n, size):
        self.n = n
        self.size = size
        self.transform = v2.Compose(
            [
                v2.RandomResizedCrop(size, scale=(0.2, 1.0), antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.5] * 3),
            ]
        )

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        picture = torch.randint(0, 256, (3, 64, 80), dtype=torch.uint8, generator=g)
        return {"pixel_values": self.transform(picture)}


def collate(examples):
    return {"pixel_values": torch.stack([e["pixel_values"] for e in examples])}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--decoder", type=int, default=512)
    p.add_argument("--decoder-layers", type=int, default=4)
    p.add_argument("--fp32", action="store_true")
    args = p.parse_args()
    set_seed(1)
    config = ViTMAEConfig(
        image_size=args.size,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        decoder_hidden_size=args.decoder,
        decoder_num_hidden_layers=args.decoder_layers,
        decoder_num_attention_heads=args.decoder // 32,
        decoder_intermediate_size=4 * args.decoder,
        mask_ratio=0.75,
        norm_pix_loss=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=ViTMAEForPreTraining(config),
            args=TrainingArguments(
                folder,
                per_device_train_batch_size=args.batch,
                learning_rate=1.5e-4,
                weight_decay=0.05,
                lr_scheduler_type="cosine",
                max_steps=4,
                bf16=not args.fp32,
                dataloader_num_workers=2,
                dataloader_drop_last=True,
                remove_unused_columns=False,
                label_names=["pixel_values"],
                logging_steps=2,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Pictures(5 * args.batch, args.size),
            data_collator=collate,
        )
        trainer.train()


if __name__ == "__main__":
    main()
