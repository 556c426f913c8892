"""BERT for sentiment in Lightning: bf16-mixed, a data module with workers, validation."""

import argparse

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertModel


class Sentiment(L.LightningModule):
    def __init__(self, hidden, layers, vocab):
        super().__init__()
        self.bert = BertModel(
            BertConfig(
                vocab_size=vocab,
                hidden_size=hidden,
                num_hidden_layers=layers,
                num_attention_heads=hidden // 64,
                intermediate_size=4 * hidden,
            )
        )
        self.dropout = torch.nn.Dropout(0.2)
        self.classifier = torch.nn.Linear(hidden, 3)
        self.criterion = torch.nn.CrossEntropyLoss()

    def forward(self, ids, mask):
        return self.classifier(self.dropout(self.bert(ids, attention_mask=mask).pooler_output))

    def training_step(self, batch, batch_idx):
        ids, mask, labels = batch
        loss = self.criterion(self(ids, mask), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        ids, mask, labels = batch
        logits = self(ids, mask)
        self.log("val_loss", self.criterion(logits, labels))
        self.log("val_acc", (logits.argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-5)


class Tweets(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args = args

    def rows(self, count):
        ids = torch.randint(1, self.args.vocab, (count, self.args.length))
        mask = torch.ones_like(ids)
        for row, length in enumerate(torch.randint(8, self.args.length, (count,))):
            mask[row, length:] = 0
        return TensorDataset(ids * mask, mask, torch.randint(0, 3, (count,)))

    def train_dataloader(self):
        size = self.args.batch_size
        return DataLoader(self.rows(size * 5), size, shuffle=True, num_workers=self.args.workers)

    def val_dataloader(self):
        return DataLoader(self.rows(self.args.batch_size * 2), self.args.batch_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--length", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=28996)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    L.seed_everything(5)
    trainer = L.Trainer(
        max_epochs=1,
        devices=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Sentiment(args.hidden, args.layers, args.vocab), datamodule=Tweets(args))
    print(trainer.callback_metrics)
