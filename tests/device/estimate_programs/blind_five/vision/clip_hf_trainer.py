"""CLIP trained from scratch with the HF Trainer: two towers, contrastive loss, bf16."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import CLIPConfig, CLIPModel, Trainer, TrainingArguments, set_seed


class Captions(Dataset):
    def __init__(self, n, size, words, vocab):
        self.n, self.size, self.words, self.vocab = n, size, words, vocab

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        ids = torch.randint(3, self.vocab - 1, (self.words,), generator=g)
        end = int(torch.randint(4, self.words, (1,), generator=g))
        ids[end:] = self.vocab - 1
        mask = (torch.arange(self.words) <= end).long()
        pixels = torch.randn(3, self.size, self.size, generator=g)
        return {"input_ids": ids, "attention_mask": mask, "pixel_values": pixels}


def collate(rows):
    batch = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
    batch["return_loss"] = True
    return batch


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=96)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--words", type=int, default=64)
    p.add_argument("--vision", type=int, default=512)
    p.add_argument("--text", type=int, default=384)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--vocab", type=int, default=49408)
    p.add_argument("--fp32", action="store_true")
    a = p.parse_args()
    set_seed(4)
    config = CLIPConfig(
        text_config=dict(
            vocab_size=a.vocab,
            hidden_size=a.text,
            intermediate_size=4 * a.text,
            num_hidden_layers=a.layers,
            num_attention_heads=a.text // 64,
            max_position_embeddings=a.words,
            bos_token_id=1,
            eos_token_id=a.vocab - 1,
        ),
        vision_config=dict(
            hidden_size=a.vision,
            intermediate_size=4 * a.vision,
            num_hidden_layers=a.layers,
            num_attention_heads=a.vision // 64,
            image_size=a.size,
            patch_size=16,
        ),
        projection_dim=256,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=a.batch_size,
            max_steps=4,
            learning_rate=5e-4,
            weight_decay=0.2,
            adam_beta2=0.98,
            bf16=not a.fp32,
            dataloader_num_workers=4,
            logging_steps=1,
            remove_unused_columns=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Captions(6 * a.batch_size, a.size, a.words, a.vocab)
        Trainer(CLIPModel(config), arguments, train_dataset=data, data_collator=collate).train()


if __name__ == "__main__":
    main()
