"""A GPT written by hand in Lightning: bf16-true weights, clipping, AdamW, tied head."""

import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(L.LightningModule):
    def __init__(self, vocab, length, width, depth):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self(x).flatten(0, 1).float(), y.flatten())
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=6e-4, betas=(0.9, 0.95))


class Text(Dataset):
    def __init__(self, vocab, length, count):
        self.data = torch.randint(0, vocab, (length * count + 1,))
        self.length, self.count = length, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        piece = self.data[i * self.length : (i + 1) * self.length + 1]
        return piece[:-1], piece[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", default="bf16-true")
    args = parser.parse_args()
    L.seed_everything(1337, verbose=False)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_steps=args.steps,
        precision=args.precision,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    text = Text(args.vocab, args.length, args.batch_size * args.steps)
    loader = DataLoader(text, args.batch_size, shuffle=True, num_workers=1, pin_memory=True)
    trainer.fit(GPT(args.vocab, args.length, args.width, args.depth), loader)
    print(trainer.callback_metrics["loss"].item())


if __name__ == "__main__":
    main()
