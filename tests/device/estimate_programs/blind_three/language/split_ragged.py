"""Documents of very different lengths, with an allocator that splits only small blocks."""

import argparse
import os

os.environ.setdefault(
    "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,garbage_collection_threshold:0.8"
)

import torch
import torch.nn.functional as F
from transformers import ModernBertConfig, ModernBertModel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=9)
    parser.add_argument("--vocab", type=int, default=50368)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = ModernBertConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=2 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=args.longest,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    model = ModernBertModel(config).to(device).train()
    head = torch.nn.Linear(args.hidden, args.hidden).to(device)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3, momentum=0.9)
    lengths = (args.longest ** torch.linspace(0.6, 1.0, args.documents)).long()
    lengths = lengths[torch.randperm(args.documents)].tolist()
    for start in range(0, args.documents, args.batch_size):
        part = lengths[start : start + args.batch_size]
        ids = torch.full((len(part), max(part)), 0)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(part):
            ids[row, :length] = torch.randint(10, args.vocab, (length,))
            mask[row, :length] = 1
        ids, mask = ids.to(device), mask.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            h = model(input_ids=ids, attention_mask=mask).last_hidden_state
            pooled = (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
            twice = F.dropout(pooled, 0.1), F.dropout(pooled, 0.1)
            a, b = (F.normalize(head(x).float(), dim=-1) for x in twice)
        loss = F.cross_entropy(a @ b.T / 0.05, torch.arange(len(part), device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{max(part)} tokens: {loss.item():.4f}")


if __name__ == "__main__":
    main()
