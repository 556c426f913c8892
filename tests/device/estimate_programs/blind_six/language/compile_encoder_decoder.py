"""A compiled encoder-decoder of torch's own layers: bf16 autocast, two lengths, gradient
clipping.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Translator(nn.Module):
    def __init__(self, vocab, length, width, layers):
        super().__init__()
        self.source = nn.Embedding(vocab, width)
        self.target = nn.Embedding(vocab, width)
        self.place = nn.Parameter(torch.randn(length, width) * 0.02)
        self.transformer = nn.Transformer(
            width, width // 64, layers, layers, 4 * width, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(width, vocab)

    def forward(self, source, target):
        x = self.source(source) + self.place[: source.shape[1]]
        y = self.target(target) + self.place[: target.shape[1]]
        size = target.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool, device=y.device).triu(1)
        return self.head(self.transformer(x, y, tgt_mask=mask))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--source", type=int, default=256)
    parser.add_argument("--target", type=int, default=192)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--vocab", type=int, default=24000)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Translator(args.vocab, max(args.source, args.target), args.width, args.layers).cuda()
    compiled = model if args.no_compile else torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(5):
        source = torch.randint(args.vocab, (args.batch_size, args.source), device="cuda")
        target = torch.randint(args.vocab, (args.batch_size, args.target + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            logits = compiled(source, target[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, loss.item())


if __name__ == "__main__":
    main()
