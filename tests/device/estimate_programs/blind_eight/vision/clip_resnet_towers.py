"""CLIP with a ResNet tower for images and a transformer for captions, trained with bf16 autocast
and a learned temperature.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


class TextTower(nn.Module):
    def __init__(self, vocab, longest, width, layers, out):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Parameter(torch.randn(longest, width) * 0.01)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, out, bias=False)
        mask = nn.Transformer.generate_square_subsequent_mask(longest)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places
        x = self.norm(self.layers(x, mask=self.mask, is_causal=True))
        end = ids.argmax(dim=-1)
        return self.project(x[torch.arange(len(ids), device=ids.device), end])


class CLIP(nn.Module):
    def __init__(self, vocab, longest, width, layers, out):
        super().__init__()
        self.image = torchvision.models.resnet50(num_classes=out)
        self.text = TextTower(vocab, longest, width, layers, out)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, ids):
        images = F.normalize(self.image(images), dim=-1)
        texts = F.normalize(self.text(ids), dim=-1)
        logits = self.scale.exp() * images @ texts.t()
        labels = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--tokens", type=int, default=77)
    parser.add_argument("--vocab", type=int, default=49408)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--out", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = CLIP(args.vocab, args.tokens, args.width, args.layers, args.out).to("cuda")
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2
    )
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).to("cuda")
        ids = torch.randint(1, args.vocab - 1, (args.batch_size, args.tokens)).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(images, ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.scale.clamp_(0, math.log(100))
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
