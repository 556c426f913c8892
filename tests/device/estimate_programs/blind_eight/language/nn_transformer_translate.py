"""Translation with nn.Transformer, as in the tutorial: float32 Adam with the Noam schedule, masks
made per batch, greedy decoding of one sentence at the end.
"""

import argparse
import math
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 1, 2


class Seq2Seq(nn.Module):
    def __init__(self, words, dim, heads, layers, ff):
        super().__init__()
        self.dim = dim
        self.source = nn.Embedding(words, dim, padding_idx=PAD)
        self.target = nn.Embedding(words, dim, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(512, 1, dim) * 0.02)
        self.transformer = nn.Transformer(dim, heads, layers, layers, ff, dropout=0.1)
        self.generator = nn.Linear(dim, words)

    def embed(self, table, ids):
        return table(ids) * math.sqrt(self.dim) + self.places[: ids.size(0)]

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(0), device=target.device)
        hidden = self.transformer(
            self.embed(self.source, source),
            self.embed(self.target, target),
            tgt_mask=mask.isinf(),
            src_key_padding_mask=(source == PAD).t(),
            tgt_key_padding_mask=(target == PAD).t(),
            memory_key_padding_mask=(source == PAD).t(),
        )
        return self.generator(hidden)


def make_batch(rng, size, longest, words):
    rows = []
    for _ in range(size):
        length = rng.randint(longest // 3, longest - 2)
        rows.append([rng.randrange(3, words) for _ in range(length)])
    source = pad_sequence([torch.tensor([BOS, *row, EOS]) for row in rows], padding_value=PAD)
    target = pad_sequence([torch.tensor([BOS, *row[::-1], EOS]) for row in rows], padding_value=PAD)
    return source, target


def translate(model, source, most):
    model.eval()
    answer = torch.full((1, source.size(1)), BOS, device=source.device)
    with torch.no_grad():
        for _ in range(most):
            word = model(source, answer)[-1].argmax(-1)
            answer = torch.cat([answer, word[None]])
            if (word == EOS).all():
                break
    return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--words", type=int, default=24000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda")
    model = Seq2Seq(args.words, args.dim, args.heads, args.layers, 4 * args.dim).to(device)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: args.dim**-0.5 * min((n + 1) ** -0.5, (n + 1) * 4000**-1.5)
    )
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    total = 0.0
    for _step in range(args.steps):
        source, target = make_batch(rng, args.batch_size, args.longest, args.words)
        source, target = source.to(device), target.to(device)
        logits = model(source, target[:-1])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), target[1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    print(f"mean loss {total / args.steps:.3f}")
    source, _ = make_batch(rng, 1, args.longest, args.words)
    print(translate(model, source.to(device), 8).flatten().tolist())


if __name__ == "__main__":
    main()
