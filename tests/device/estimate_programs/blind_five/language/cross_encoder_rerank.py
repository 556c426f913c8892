"""A cross-encoder that ranks passages with listwise softmax: MiniLM-sized BERT, hard negatives."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import BertConfig, BertModel


class CrossEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(0.1)
        self.score = nn.Linear(config.hidden_size, 1)

    def forward(self, **inputs):
        hidden = self.bert(**inputs).last_hidden_state[:, 0]
        return self.score(self.dropout(hidden)).squeeze(-1)


def batch_of(queries, passages, longest, vocab, rng, device):
    rows, types = [], []
    for _ in range(queries):
        query = [rng.randrange(1000, vocab) for _ in range(rng.randint(5, 20))]
        for _ in range(passages):
            text = [
                rng.randrange(1000, vocab) for _ in range(rng.randint(longest // 3, longest - 24))
            ]
            rows.append([101, *query, 102, *text, 102])
            types.append([0] * (len(query) + 2) + [1] * (len(text) + 1))
    size = max(map(len, rows))
    ids = torch.tensor([row + [0] * (size - len(row)) for row in rows], device=device)
    kinds = torch.tensor([row + [0] * (size - len(row)) for row in types], device=device)
    return {"input_ids": ids, "token_type_ids": kinds, "attention_mask": (ids != 0).long()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--passages", type=int, default=8)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(6)
    rng = random.Random(6)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = BertConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 32,
        intermediate_size=4 * args.width,
    )
    model = CrossEncoder(config).to(device)
    head = list(model.score.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": model.bert.parameters(), "lr": 2e-5}, {"params": head, "lr": 1e-3}]
    )
    for step in range(args.steps):
        batch = batch_of(args.queries, args.passages, args.longest, args.vocab, rng, device)
        scores = model(**batch).view(args.queries, args.passages)
        loss = F.cross_entropy(scores, torch.zeros(args.queries, dtype=torch.long, device=device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
    model.eval()
    with torch.inference_mode():
        batch = batch_of(4, 50, args.longest, args.vocab, rng, device)
        ranks = model(**batch).view(4, 50).argsort(descending=True)
    print("reciprocal rank", (1 / (1 + (ranks == 0).nonzero()[:, 1].float())).mean().item())


if __name__ == "__main__":
    main()
