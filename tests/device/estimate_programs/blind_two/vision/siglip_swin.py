"""Image-text pairs with a sigmoid loss: torchvision's Swin and a CLIP text tower, in bf16."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.swin_transformer import SwinTransformer
from transformers import CLIPTextConfig, CLIPTextModel


class Pair(nn.Module):
    def __init__(self, image_dim, depths, text_width, text_layers, words, tokens, dim):
        super().__init__()
        heads = [image_dim * 2**i // 32 for i in range(len(depths))]
        self.image = SwinTransformer(
            patch_size=[4, 4],
            embed_dim=image_dim,
            depths=depths,
            num_heads=heads,
            window_size=[7, 7],
            stochastic_depth_prob=0.1,
            num_classes=dim,
        )
        config = CLIPTextConfig(
            vocab_size=words,
            hidden_size=text_width,
            intermediate_size=4 * text_width,
            num_hidden_layers=text_layers,
            num_attention_heads=text_width // 64,
            max_position_embeddings=tokens,
            eos_token_id=2,
            bos_token_id=1,
            pad_token_id=0,
        )
        self.text = CLIPTextModel(config)
        self.text_projection = nn.Linear(text_width, dim, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))
        self.bias = nn.Parameter(torch.tensor(-10.0))

    def forward(self, pixels, ids, mask):
        image = F.normalize(self.image(pixels), dim=-1)
        pooled = self.text(input_ids=ids, attention_mask=mask).pooler_output
        text = F.normalize(self.text_projection(pooled), dim=-1)
        return image, text


def sigmoid_loss(image, text, scale, bias):
    logits = image @ text.t() * scale.exp() + bias
    signs = 2 * torch.eye(len(logits), device=logits.device) - 1
    return -F.logsigmoid(signs * logits).sum() / len(logits), logits


def captions(batch, tokens, words):
    ids = torch.randint(3, words, (batch, tokens))
    ids[:, 0] = 1
    mask = torch.ones_like(ids)
    for row in range(batch):
        end = int(torch.randint(4, tokens, ()))
        ids[row, end] = 2
        ids[row, end + 1 :] = 0
        mask[row, end + 1 :] = 0
    return ids, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--image-dim", type=int, default=96)
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 2, 6, 2])
    parser.add_argument("--text-width", type=int, default=512)
    parser.add_argument("--text-layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Pair(
        args.image_dim, args.depths, args.text_width, args.text_layers, args.words, args.tokens, 512
    ).to(device)
    towers = list(model.image.parameters()) + list(model.text.parameters())
    others = [*model.text_projection.parameters(), model.scale, model.bias]
    opt = torch.optim.AdamW(
        [{"params": towers, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
        lr=5e-4,
        betas=(0.9, 0.95),
        fused=device == "cuda",
    )
    for step in range(args.steps):
        pixels = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        ids, mask = captions(args.batch_size, args.tokens, args.words)
        with torch.autocast(device, dtype=torch.bfloat16):
            image, text = model(pixels, ids.to(device), mask.to(device))
        loss, logits = sigmoid_loss(image.float(), text.float(), model.scale, model.bias)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        top1 = (logits.argmax(1).cpu() == torch.arange(args.batch_size)).float().mean()
        print(f"step {step} loss {loss.item():.3f} top-1 {top1:.3f}")

    model.eval()
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        names, mask = captions(100, args.tokens, args.words)
        image, text = model(pixels, names.to(device), mask.to(device))
        print("zero-shot", torch.bincount((image @ text.t()).argmax(1), minlength=100).max().item())


if __name__ == "__main__":
    main()
