"""Late interaction: DistilBERT embeds every word, the best match of each query word counts."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import DistilBertConfig, DistilBertModel


class Pairs(Dataset):
    def __init__(self, count, longest, vocab):
        rng = random.Random(4)
        self.vocab = vocab
        self.lengths = [int(longest * rng.triangular(0.2, 1.0, 0.4)) for _ in range(count)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        passage = torch.randint(5, self.vocab, (self.lengths[i],), generator=generator)
        return passage[torch.randperm(len(passage), generator=generator)[:24]], passage


class ByLength(Sampler):
    """Batches of passages of about the same length, in a random order."""

    def __init__(self, lengths, batch_size, seed):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        random.Random(seed).shuffle(self.batches)

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def collate(pairs):
    queries, passages = zip(*pairs)
    return tuple(nn.utils.rnn.pad_sequence(x, batch_first=True) for x in (queries, passages))


class ColBert(nn.Module):
    def __init__(self, config, dim=128):
        super().__init__()
        self.bert = DistilBertModel(config)
        self.project = nn.Linear(config.dim, dim, bias=False)

    def forward(self, ids):
        mask = ids != 0
        h = self.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return F.normalize(self.project(h), dim=-1) * mask.unsqueeze(-1), mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--longest", type=int, default=320)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--batches", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = DistilBertConfig(
        vocab_size=args.vocab,
        dim=args.width,
        hidden_dim=4 * args.width,
        n_layers=args.layers,
        n_heads=args.width // 64,
        max_position_embeddings=max(512, args.longest),
    )
    model = ColBert(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=device.type == "cuda")
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    data = Pairs(args.batches * args.batch_size, args.longest, args.vocab)
    sampler = ByLength(data.lengths, args.batch_size, 3)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate, pin_memory=True)
    for step, (queries, passages) in enumerate(loader):
        queries = queries.to(device, non_blocking=True)
        passages = passages.to(device, non_blocking=True)
        with torch.autocast(device.type, half):
            q, _ = model(queries)
            d, mask = model(passages)
            match = torch.einsum("qid,pjd->qpij", q, d)
            match = match.masked_fill(~mask[None, :, None, :], -1e4)
            scores = match.amax(-1).sum(-1)
            loss = F.cross_entropy(scores / 0.5, torch.arange(len(q), device=device))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step}: {loss.item():.4f} for passages of {passages.size(1)} words")


if __name__ == "__main__":
    main()
