"""Images as masked tokens (MaskGIT): a transformer over codes, cosine masking, iterative
decoding.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bidirectional(nn.Module):
    def __init__(self, codes, tokens, width, layers, classes):
        super().__init__()
        self.codes = nn.Embedding(codes + 1, width)
        self.classes = nn.Embedding(classes + 1, width)
        self.place = nn.Parameter(torch.randn(1, tokens + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.1, F.gelu, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), False)
        self.bias = nn.Parameter(torch.zeros(codes))

    def forward(self, ids, labels):
        x = torch.cat([self.classes(labels)[:, None], self.codes(ids)], dim=1) + self.place
        x = self.body(x)[:, 1:]
        return F.linear(x, self.codes.weight[:-1], self.bias)


@torch.no_grad()
def decode(model, labels, tokens, codes, rounds):
    ids = torch.full((len(labels), tokens), codes, device=labels.device)
    for r in range(rounds):
        probabilities = model(ids, labels).float().softmax(-1)
        picked = torch.multinomial(probabilities.flatten(0, 1), 1).view_as(ids)
        sure = probabilities.gather(2, picked[..., None]).squeeze(2)
        masked = ids == codes
        picked = torch.where(masked, picked, ids)
        sure = sure.masked_fill(~masked, math.inf)
        left = int(tokens * math.cos(math.pi / 2 * (r + 1) / rounds))
        if left:
            lowest = sure.topk(left, dim=1, largest=False).indices
            picked = picked.scatter(1, lowest, codes)
        ids = picked
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--codes", type=int, default=8192)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Bidirectional(args.codes, args.tokens, args.width, args.layers, 1000).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, betas=(0.9, 0.96), weight_decay=4.5e-2)
    for step in range(4):
        codes = torch.randint(args.codes, (args.batch_size, args.tokens)).cuda()
        labels = torch.randint(1000, (args.batch_size,)).cuda()
        share = torch.cos(torch.rand(args.batch_size, 1, device="cuda") * math.pi / 2)
        order = (
            torch.rand(args.batch_size, args.tokens, device="cuda").argsort(dim=1).argsort(dim=1)
        )
        masked = order < (share * args.tokens).ceil().clamp(min=1)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(codes.masked_fill(masked, args.codes), labels)
        each = F.cross_entropy(
            logits.float().transpose(1, 2), codes, reduction="none", label_smoothing=0.1
        )
        loss = (each * masked).sum() / masked.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimizer.step()
        print(step, loss.item())
    model.eval()
    print(decode(model, labels[:8], args.tokens, args.codes, 6).shape)


if __name__ == "__main__":
    main()
