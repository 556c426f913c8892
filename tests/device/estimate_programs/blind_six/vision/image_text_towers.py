"""Two towers, a timm ConvNeXt and an own text encoder, joined by a symmetric contrastive loss
in bf16.
"""

import argparse

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F


class TextTower(nn.Module):
    def __init__(self, vocab, length, width, layers, out):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Parameter(torch.randn(length, width) * 0.01)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, out, bias=False)

    def forward(self, ids):
        padding = ids == 0
        x = self.layers(self.embed(ids) + self.place, src_key_padding_mask=padding)
        last = (~padding).sum(1) - 1
        return self.out(x[torch.arange(len(x), device=x.device), last])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=40000)
    parser.add_argument("--backbone", default="convnext_tiny")
    args = parser.parse_args()
    torch.manual_seed(0)
    image = timm.create_model(args.backbone, pretrained=False, num_classes=256).cuda()
    text = TextTower(args.vocab, args.length, args.width, args.layers, 256).cuda()
    scale = nn.Parameter(torch.tensor(2.66, device="cuda"))
    params = [*image.parameters(), *text.parameters(), scale]
    optimizer = torch.optim.AdamW(params, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.2)
    for step in range(4):
        pixels = torch.rand(args.batch_size, 3, args.size, args.size).cuda()
        ids = torch.randint(1, args.vocab, (args.batch_size, args.length))
        lengths = torch.randint(8, args.length + 1, (args.batch_size, 1))
        ids[torch.arange(args.length)[None] >= lengths] = 0
        with torch.autocast("cuda", torch.bfloat16):
            a = F.normalize(image(pixels).float(), dim=-1)
            b = F.normalize(text(ids.cuda()).float(), dim=-1)
        logits = scale.exp() * a @ b.T
        target = torch.arange(len(a), device="cuda")
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            scale.clamp_(0, 4.6)
        print(step, loss.item())


if __name__ == "__main__":
    main()
