"""A server's loop that embeds protein sequences with an ESM encoder: requests of different counts
and lengths, cut into batches of like lengths, vectors returned in the order of the request.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from transformers import EsmConfig, EsmModel


class Embedder:
    def __init__(self, config, device, batch_tokens):
        with torch.device(device):
            model = EsmModel(config, add_pooling_layer=False)
        self.dtype = torch.float16 if device == "cuda" else torch.float32
        self.model = model.to(self.dtype).eval()
        self.device = device
        self.pad = config.pad_token_id
        self.batch_tokens = batch_tokens

    def batches(self, sequences):
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        batch = []
        for i in order:
            width = -(-len(sequences[i]) // 16) * 16
            if batch and width * (len(batch) + 1) > self.batch_tokens:
                yield batch
                batch = []
            batch.append(i)
        yield batch

    @torch.inference_mode()
    def embed(self, sequences):
        vectors = [None] * len(sequences)
        for batch in self.batches(sequences):
            width = -(-max(len(sequences[i]) for i in batch) // 16) * 16
            ids = np.full((len(batch), width), self.pad)
            for row, i in enumerate(batch):
                ids[row, : len(sequences[i])] = sequences[i]
            ids = torch.from_numpy(ids).to(self.device)
            mask = ids.ne(self.pad)
            hidden = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            weights = mask.unsqueeze(-1)
            mean = (hidden.float() * weights).sum(1) / weights.sum(1)
            for i, vector in zip(batch, F.normalize(mean, dim=-1).cpu(), strict=True):
                vectors[i] = vector
        return torch.stack(vectors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--most-texts", type=int, default=64)
    parser.add_argument("--longest", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--hidden", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=33)
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    config = EsmConfig(
        vocab_size=args.vocab,
        mask_token_id=args.vocab - 1,
        pad_token_id=1,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=args.longest + 32,
        position_embedding_type="rotary",
        token_dropout=True,
        emb_layer_norm_before=False,
    )
    embedder = Embedder(config, args.device, args.batch_tokens)
    for number in range(args.requests):
        count = int(rng.integers(1, args.most_texts + 1))
        lengths = rng.integers(args.longest // 20 + 1, args.longest + 1, count)
        sequences = [rng.integers(4, min(24, args.vocab), n) for n in lengths]
        began = time.perf_counter()
        vectors = embedder.embed(sequences)
        elapsed = time.perf_counter() - began
        closest = (vectors @ vectors.t()).fill_diagonal_(-1).max().item()
        print(
            f"request {number}: {count} sequences, {lengths.sum()} residues, "
            f"closest pair {closest:.3f}, {1000 * elapsed:.0f} ms"
        )


if __name__ == "__main__":
    main()
