"""Finds the largest batch that fits by halving after each out-of-memory error, then embeds."""

import argparse
import gc

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers)
        self.pool = nn.Linear(width, width)

    def forward(self, ids):
        x = self.layers(self.embed(ids) + self.position[: ids.size(1)])
        return torch.tanh(self.pool(x.mean(dim=1)))


def embed_all(model, documents, batch_size, device):
    results = []
    for start in range(0, len(documents), batch_size):
        results.append(model(documents[start : start + batch_size].to(device)).cpu())
    return torch.cat(results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4096, help="to begin with")
    parser.add_argument("--documents", type=int, default=4096)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--share", type=float, default=0.06, help="of the GPU that we may use")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(args.share)
    model = Encoder(30000, args.width, args.layers, args.length).to(device).train()
    documents = torch.randint(0, 30000, (args.documents, args.length))

    batch_size = args.batch_size
    result = None
    with torch.no_grad():
        while result is None and batch_size >= 1:
            try:
                result = embed_all(model, documents, batch_size, device)
            except torch.cuda.OutOfMemoryError:
                print(f"a batch of {batch_size} does not fit")
                batch_size //= 2
                gc.collect()
                torch.cuda.empty_cache()
    print(f"batch of {batch_size}: embedded {tuple(result.shape)}")


if __name__ == "__main__":
    main()
