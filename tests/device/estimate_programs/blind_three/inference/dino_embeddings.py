"""Embeds a folder's worth of pictures with DINOv2 through a loader, then finds near duplicates."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import Dinov2Config, Dinov2Model


class Pictures(Dataset):
    """Pictures of different sizes, cut and scaled to one size."""

    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i // 2)
        height, width = (self.size + int(torch.randint(0, 64, (), generator=gen)) for _ in "hw")
        image = torch.randint(0, 256, (3, height, width), generator=gen, dtype=torch.uint8)
        side = min(height, width)
        image = image[:, :side, :side].float().div(255).unsqueeze(0)
        return F.interpolate(image, (self.size, self.size), mode="bilinear", antialias=True)[0], i


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=320)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--catalogue", type=int, default=400_000)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Dinov2Config(
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        image_size=args.size,
        patch_size=14,
        use_swiglu_ffn=True,
    )
    model = Dinov2Model(config).to(device).eval()
    loader = DataLoader(
        Pictures(args.images, args.size),
        args.batch_size,
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
    )
    embeddings, numbers = [], []
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        for images, index in loader:
            out = model(images.to(device, non_blocking=True)).last_hidden_state
            both = torch.cat([out[:, 0], out[:, 1:].mean(1)], dim=-1)
            embeddings.append(F.normalize(both.float(), dim=-1))
            numbers.append(index)
    queries = torch.cat(embeddings)
    print("embedded", tuple(queries.shape), "of", len(torch.cat(numbers)))
    catalogue = F.normalize(torch.randn(args.catalogue, queries.size(1), device=device), dim=-1)
    best, place = (queries @ catalogue.T).topk(10, dim=1)
    own = (queries @ queries.T).fill_diagonal_(-1)
    print("nearest", best[:, 0].mean().item(), "duplicates", int((own.amax(1) > 0.999).sum()))
    del catalogue, place


if __name__ == "__main__":
    main()
