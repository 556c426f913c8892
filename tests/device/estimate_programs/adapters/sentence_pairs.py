"""Sentence embeddings with in-batch negatives: a mean-pooled RoBERTa of sentence-transformers."""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer, models
from torch import nn
from transformers import RobertaConfig, RobertaModel


class Words(nn.Module):
    """RoBERTa without a tokenizer: takes ids, gives token embeddings, as the library expects."""

    def __init__(self, layers, width):
        super().__init__()
        config = RobertaConfig(
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            vocab_size=50265,
            max_position_embeddings=514,
        )
        self.roberta = RobertaModel(config, add_pooling_layer=False)

    def forward(self, features):
        output = self.roberta(features["input_ids"], attention_mask=features["attention_mask"])
        features["token_embeddings"] = output.last_hidden_state
        return features


def texts(count, longest, device):
    lengths = torch.randint(8, longest + 1, (count,))
    ids = torch.randint(4, 50000, (count, int(lengths.max())))
    mask = (torch.arange(ids.size(1))[None] < lengths[:, None]).long()
    return {"input_ids": (ids * mask + (1 - mask)).to(device), "attention_mask": mask.to(device)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--longest", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--scale", type=float, default=20.0)
    args = parser.parse_args()
    torch.manual_seed(17)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = SentenceTransformer(
        modules=[Words(args.layers, args.width), models.Pooling(args.width), models.Normalize()],
        device=device,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for step in range(args.steps):
        with torch.autocast(device, dtype=torch.bfloat16):
            anchors = model(texts(args.batch_size, args.longest, device))["sentence_embedding"]
            positives = model(texts(args.batch_size, args.longest, device))["sentence_embedding"]
            scores = args.scale * anchors @ positives.t()
        loss = F.cross_entropy(scores.float(), torch.arange(len(scores), device=device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        query = model(texts(8, args.longest, device))["sentence_embedding"]
        corpus = model(texts(256, args.longest, device))["sentence_embedding"]
        best = (query @ corpus.t()).topk(5).indices
    print("nearest:", best[0].tolist())
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/weights.pt")


if __name__ == "__main__":
    main()
