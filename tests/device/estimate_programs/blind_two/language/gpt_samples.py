"""A character GPT with attention spelled out; samples with a key-value cache while it trains."""

import argparse
import math
import string

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
CHARS = string.printable


def get_text(n):
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs"]
    picks = torch.randint(0, len(words), (n // 4,)).tolist()
    return " ".join(words[i] for i in picks)


class Attention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_embd, n_embd)
        self.key = nn.Linear(n_embd, n_embd)
        self.value = nn.Linear(n_embd, n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x, cache=None):
        B, T, C = x.shape
        split = (B, T, self.n_head, C // self.n_head)
        q, k, v = (f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value))
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        S = k.size(2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.tril[S - T : S, :S] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        return self.proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.sa = Attention(n_embd, n_head, block_size, dropout)
        self.ff = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cache=None):
        x = x + self.sa(self.ln1(x), cache)
        return x + self.drop(self.ff(self.ln2(x)))


class GPT(nn.Module):
    def __init__(self, vocab, n_embd, n_head, n_layer, block_size, dropout=0.2):
        super().__init__()
        self.block_size = block_size
        self.tok = nn.Embedding(vocab, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(
            [Block(n_embd, n_head, block_size, dropout) for _ in range(n_layer)]
        )
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab)

    def forward(self, idx, targets=None, caches=None, start=0):
        x = self.tok(idx) + self.pos(torch.arange(start, start + idx.size(1), device=idx.device))
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        logits = self.head(self.ln(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def sample(self, idx, n, temperature=0.9, top_p=0.9):
        caches = [{} for _ in self.blocks]
        step, start = idx, 0
        for _ in range(n):
            logits, _ = self(step, caches=caches, start=start)
            start += step.size(1)
            probs = F.softmax(logits[:, -1] / temperature, dim=-1)
            sorted_probs, order = probs.sort(descending=True)
            sorted_probs[sorted_probs.cumsum(-1) - sorted_probs > top_p] = 0.0
            step = order.gather(1, torch.multinomial(sorted_probs, 1))
            idx = torch.cat([idx, step], dim=1)
        return idx


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=40)
    p.add_argument("--block-size", type=int, default=384)
    p.add_argument("--n-embd", type=int, default=512)
    p.add_argument("--n-layer", type=int, default=8)
    p.add_argument("--sample-batch", type=int, default=64)
    p.add_argument("--new-chars", type=int, default=80)
    p.add_argument("--steps", type=int, default=6)
    args = p.parse_args()
    torch.manual_seed(1337)
    text = get_text(40000)
    index = {c: i for i, c in enumerate(CHARS)}
    data = torch.tensor([index[c] for c in text])
    model = GPT(len(CHARS), args.n_embd, args.n_embd // 64, args.n_layer, args.block_size)
    model = model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(args.steps):
        starts = torch.randint(0, len(data) - args.block_size - 1, (args.batch_size,)).tolist()
        x = torch.stack([data[i : i + args.block_size] for i in starts]).to(device)
        y = torch.stack([data[i + 1 : i + args.block_size + 1] for i in starts]).to(device)
        _, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 3 == 2:
            model.eval()
            prompt = torch.zeros(args.sample_batch, 1, dtype=torch.long, device=device)
            out = model.sample(prompt, args.new_chars)
            model.train()
            print(step, loss.item(), repr("".join(CHARS[i] for i in out[0].tolist())[:40]))


if __name__ == "__main__":
    main()
