"""Document classification with a hierarchy of recurrent networks: a bidirectional GRU and attention
over the words of a sentence, then the same over the sentences of a document.
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class AttentiveGru(nn.Module):
    def __init__(self, inputs, hidden, layers, dropout):
        super().__init__()
        self.gru = nn.GRU(
            inputs, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.key = nn.Linear(2 * hidden, 2 * hidden)
        self.context = nn.Parameter(torch.randn(2 * hidden) * 0.05)

    def forward(self, x, mask):
        states, _ = self.gru(x)
        scores = torch.tanh(self.key(states)) @ self.context
        scores = scores.masked_fill(~mask, -1e4)
        weights = F.softmax(scores, dim=1)
        return (weights.unsqueeze(-1) * states).sum(1), weights


class DocumentClassifier(nn.Module):
    def __init__(self, vocab, embedding, hidden, classes, layers, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, embedding, padding_idx=0)
        self.dropout = nn.Dropout(dropout)
        self.words = AttentiveGru(embedding, hidden, layers, dropout)
        self.norm = nn.LayerNorm(2 * hidden)
        self.sentences = AttentiveGru(2 * hidden, hidden, layers, dropout)
        self.out = nn.Sequential(
            nn.Linear(2 * hidden, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, documents):
        batch, sentences, words = documents.shape
        flat = documents.view(batch * sentences, words)
        vectors, _ = self.words(self.dropout(self.embed(flat)), flat.ne(0))
        vectors = self.norm(vectors).view(batch, sentences, -1)
        document, weights = self.sentences(vectors, documents.ne(0).any(-1))
        return self.out(document), weights


def make_documents(count, sentences, words, vocab, classes, generator):
    ids = torch.randint(1, vocab, (count, sentences, words), generator=generator)
    word_counts = torch.randint(3, words + 1, (count, sentences, 1), generator=generator)
    sentence_counts = torch.randint(2, sentences + 1, (count, 1, 1), generator=generator)
    ids = ids * (torch.arange(words) < word_counts)
    ids = ids * (torch.arange(sentences)[None, :, None] < sentence_counts)
    return ids, torch.randint(0, classes, (count,), generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--sentences", type=int, default=24)
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--vocab", type=int, default=60000)
    parser.add_argument("--embedding", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = DocumentClassifier(
        args.vocab, args.embedding, args.hidden, args.classes, args.layers, dropout=0.3
    ).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    shape = (args.batch_size, args.sentences, args.words, args.vocab, args.classes)
    began = time.time()
    for step in range(args.steps):
        documents, labels = make_documents(*shape, generator)
        documents, labels = documents.to(args.device), labels.to(args.device)
        logits, weights = model(documents)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 2 == 0:
            focus = weights.detach().max(1).values.mean().item()
            print(f"step {step} loss {loss.item():.3f} focus {focus:.2f}")
    model.eval()
    with torch.no_grad():
        documents, labels = make_documents(*shape, generator)
        logits, _ = model(documents.to(args.device))
        accuracy = (logits.argmax(1).cpu() == labels).float().mean().item()
    print(f"accuracy {accuracy:.3f} after {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
