"""CLIP's two towers with Accelerate: bf16, image and text in pairs, temperature clamped."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPConfig, CLIPModel


class Captions(Dataset):
    def __init__(self, count, size, vocab):
        self.count, self.size, self.vocab = count, size, vocab

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(1, self.vocab - 2, (77,))
        length = int(torch.randint(8, 77, (1,)))
        ids[length:] = self.vocab - 1
        mask = (torch.arange(77) <= length).long()
        image = torch.randn(3, self.size, self.size)
        return {"input_ids": ids, "attention_mask": mask, "pixel_values": image}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--text-width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=49408)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--mixed-precision", default="bf16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    text = {
        "vocab_size": args.vocab,
        "hidden_size": args.text_width,
        "intermediate_size": 4 * args.text_width,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.text_width // 64,
        "bos_token_id": args.vocab - 2,
        "eos_token_id": args.vocab - 1,
    }
    vision = {
        "hidden_size": args.width,
        "intermediate_size": 4 * args.width,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.width // 64,
        "image_size": args.size,
        "patch_size": 32,
    }
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=512))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), weight_decay=0.2)
    data = Captions(args.batch_size * args.steps, args.size, args.vocab)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for batch in loader:
        loss = model(**batch, return_loss=True).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            accelerator.unwrap_model(model).logit_scale.clamp_(0, 4.6052)
        accelerator.print(loss.item())


if __name__ == "__main__":
    main()
