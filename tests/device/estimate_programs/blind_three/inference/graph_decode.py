"""Greedy decoding with one CUDA graph for the step: caches and positions are static tensors."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, (heads + 2 * groups) * self.size, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.gate_up = nn.Linear(dim, 6 * dim, bias=False)
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x, cache, place, mask):
        B, T, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, self.heads + 2 * self.groups, self.size)
        q, k, v = qkv.transpose(1, 2).split([self.heads, self.groups, self.groups], dim=1)
        cache[0].index_copy_(2, place, k)
        cache[1].index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(
            q, cache[0], cache[1], attn_mask=mask, enable_gqa=self.heads != self.groups
        )
        x = x + self.out(y.transpose(1, 2).reshape(B, T, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, vocab, dim, heads, groups, layers, batch, longest):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, groups) for _ in range(layers))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        shape = (layers, 2, batch, groups, longest, dim // heads)
        self.register_buffer("cache", torch.zeros(shape))
        self.longest = longest

    def forward(self, ids, place):
        x = self.embed(ids)
        mask = torch.arange(self.longest, device=ids.device)[None, :] <= place[:, None]
        for layer, cache in zip(self.layers, self.cache):
            x = layer(x, cache, place, mask)
        return self.head(self.norm(x[:, -1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--longest", type=int, default=2048)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with device:
        model = Decoder(
            args.vocab,
            args.dim,
            args.dim // 128,
            args.groups,
            args.layers,
            args.batch_size,
            args.longest,
        )
    model = model.to(torch.bfloat16).eval()
    prompts = torch.randint(args.vocab, (args.batch_size, args.prompt), device=device)
    with torch.inference_mode():
        logits = model(prompts, torch.arange(args.prompt, device=device))
        token = logits.argmax(-1, keepdim=True)
        place = torch.tensor([args.prompt], device=device)

        def step():
            token.copy_(model(token, place).argmax(-1, keepdim=True))
            place.add_(1)

        replay = step
        if not args.eager:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            replay = graph.replay
        written = []
        for _ in range(args.new_tokens):
            replay()
            written.append(token.clone())
    text = torch.cat(written, 1)
    print(tuple(text.shape), "up to place", place.item())


if __name__ == "__main__":
    main()
