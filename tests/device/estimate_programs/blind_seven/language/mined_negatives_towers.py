"""Two text towers for passage search: the passages are encoded again from time to time, the hardest
of them are mined as negatives, and the towers are trained with in-batch and mined negatives.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from transformers import CamembertConfig, CamembertModel


class Tower(nn.Module):
    def __init__(self, config, size):
        super().__init__()
        self.encoder = CamembertModel(config, add_pooling_layer=False)
        self.project = nn.Linear(config.hidden_size, size)

    def forward(self, ids):
        mask = ids.ne(1)
        hidden = self.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return F.normalize(self.project(mean).float(), dim=-1)


def texts(count, shortest, longest, vocab, generator):
    ids = torch.randint(5, vocab, (count, longest), generator=generator)
    lengths = torch.randint(shortest, longest + 1, (count, 1), generator=generator)
    return ids.masked_fill(torch.arange(longest)[None] >= lengths, 1)


def trimmed(ids):
    """Drops the columns which are padding in all rows."""
    return ids[:, : int(ids.ne(1).sum(1).max())]


@torch.no_grad()
def encode_all(tower, passages, batch_size, device):
    tower.eval()
    vectors = []
    for chunk in passages.split(batch_size):
        with torch.autocast(device, dtype=torch.bfloat16):
            vectors.append(tower(trimmed(chunk).to(device)))
    tower.train()
    return torch.cat(vectors)


@torch.no_grad()
def mine(query_tower, index, queries, gold, device):
    query_tower.eval()
    with torch.autocast(device, dtype=torch.bfloat16):
        vectors = query_tower(trimmed(queries).to(device))
    query_tower.train()
    scores = vectors @ index.t()
    scores.scatter_(1, gold.to(device).unsqueeze(1), float("-inf"))
    best = scores.topk(8, dim=1).indices.cpu()
    pick = torch.randint(0, best.shape[1], (len(best), 1))
    return best.gather(1, pick).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--passages", type=int, default=1536)
    parser.add_argument("--query-length", type=int, default=48)
    parser.add_argument("--passage-length", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32005)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--refresh", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    config = CamembertConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=args.passage_length + 2,
        pad_token_id=1,
    )
    device = args.device
    query_tower = Tower(config, 256).to(device)
    passage_tower = Tower(config, 256).to(device)
    parameters = [*query_tower.parameters(), *passage_tower.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-5, weight_decay=0.01)

    longest = args.passage_length
    passages = texts(args.passages, longest // 4, longest, args.vocab, generator)
    queries = texts(args.passages, 8, args.query_length, args.vocab, generator)
    index = None
    for step in range(args.steps):
        if step % args.refresh == 0:
            index = encode_all(passage_tower, passages, 4 * args.batch_size, device)
            print(f"step {step}: encoded {len(index)} passages")
        gold = torch.randperm(args.passages, generator=generator)[: args.batch_size]
        hard = mine(query_tower, index, queries[gold], gold, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            q = query_tower(trimmed(queries[gold]).to(device))
            p = passage_tower(trimmed(passages[torch.cat([gold, hard])]).to(device))
        logits = q @ p.t() / 0.05
        loss = F.cross_entropy(logits, torch.arange(len(q), device=device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 2.0)
        optimizer.step()
        accuracy = (logits.argmax(1).cpu() == torch.arange(len(q))).float().mean()
        print(f"step {step} loss {loss.item():.3f} accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
