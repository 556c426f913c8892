"""LoRA by hand on BERT for classification: adapters train, and are merged for the evaluation."""

import argparse
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, alpha: float):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.A = nn.Parameter(torch.empty(rank, base.in_features))
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / rank
        self.merged = False

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * (self.B @ self.A)
        self.merged = True

    def forward(self, x):
        y = self.base(x)
        if not self.merged:
            y = y + self.scale * ((x @ self.A.T) @ self.B.T)
        return y


def inject(model, rank, alpha, names=("query", "value")):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name in names:
                setattr(module, name, LoRALinear(child, rank, alpha))
    for name, parameter in model.named_parameters():
        if not name.endswith((".A", ".B")) and "classifier" not in name:
            parameter.requires_grad_(False)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=30522)
    p.add_argument("--rank", type=int, default=8)
    args = p.parse_args()
    torch.manual_seed(17)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = BertConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=3,
    )
    model = BertForSequenceClassification(config)
    inject(model, args.rank, alpha=16)
    model.to(device)
    trainable = [q for q in model.parameters() if q.requires_grad]
    print(
        sum(q.numel() for q in trainable),
        "trainable of",
        sum(q.numel() for q in model.parameters()),
    )
    optimizer = torch.optim.AdamW(trainable, lr=5e-4)
    ids = torch.randint(5, args.vocab, (5 * args.batch_size, args.length))
    mask = torch.ones_like(ids)
    mask[::3, args.length // 2 :] = 0
    labels = torch.randint(0, 3, (len(ids),))
    loader = DataLoader(TensorDataset(ids, mask, labels), args.batch_size, shuffle=True)
    for step, (x, m, y) in enumerate(loader):
        with torch.autocast(device, torch.bfloat16):
            loss = model(x.to(device), attention_mask=m.to(device), labels=y.to(device)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4))
    for module in model.modules():
        if isinstance(module, LoRALinear):
            module.merge()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, m, y in loader:
            logits = model(x.to(device), attention_mask=m.to(device)).logits
            right += (logits.argmax(-1).cpu() == y).sum().item()
    print("accuracy", right / len(ids))


if __name__ == "__main__":
    main()
