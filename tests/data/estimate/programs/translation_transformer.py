"""Translation with nn.Transformer: causal and padding masks, label smoothing, Noam rate."""

import argparse
import math

import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2


class Positions(nn.Module):
    def __init__(self, width, dropout, longest=2048):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(position * rates)
        table[0, :, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(x + self.table[:, : x.size(1)])


class Translator(nn.Module):
    def __init__(self, words, width, heads, layers, dropout=0.1):
        super().__init__()
        self.width = width
        self.source = nn.Embedding(words, width, padding_idx=PAD)
        self.target = nn.Embedding(words, width, padding_idx=PAD)
        self.positions = Positions(width, dropout)
        self.transformer = nn.Transformer(
            width, heads, layers, layers, 4 * width, dropout, batch_first=True
        )
        self.out = nn.Linear(width, words)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), source.device)
        hidden = self.transformer(
            self.positions(self.source(source) * math.sqrt(self.width)),
            self.positions(self.target(target) * math.sqrt(self.width)),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return self.out(hidden)


def sentences(count, longest, words, generator):
    ids = torch.randint(3, words, (count, longest), generator=generator)
    lengths = torch.randint(longest // 3, longest + 1, (count, 1), generator=generator)
    ids[torch.arange(longest)[None] >= lengths] = PAD
    ids[:, 0] = BOS
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--longest", type=int, default=160)
    parser.add_argument("--words", type=int, default=24000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda")
    model = Translator(args.words, args.width, 8, args.layers).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: args.width**-0.5 * min((s + 1) ** -0.5, (s + 1) * 4000**-1.5)
    )
    model.train()
    for step in range(args.steps):
        source = sentences(args.batch_size, args.longest, args.words, generator).to(device)
        target = sentences(args.batch_size, args.longest, args.words, generator).to(device)
        logits = model(source, target[:, :-1])
        loss = criterion(logits.reshape(-1, args.words), target[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f} perplexity {math.exp(min(loss.item(), 20)):.1f}")


if __name__ == "__main__":
    main()
