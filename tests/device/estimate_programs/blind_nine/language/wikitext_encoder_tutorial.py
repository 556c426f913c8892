"""The tutorial language model: nn.TransformerEncoder, SGD, clipping, evaluation."""

import argparse
import math

import torch
from torch import nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model, nhead, d_hid, nlayers, dropout=0.2):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        layer = TransformerEncoderLayer(d_model, nhead, d_hid, dropout)
        self.transformer_encoder = TransformerEncoder(layer, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)

    def forward(self, src, src_mask):
        src = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        return self.linear(self.transformer_encoder(src, src_mask))


def batchify(data, bsz):
    length = data.size(0) // bsz
    return data[: length * bsz].view(bsz, length).t().contiguous()


def get_batch(source, i, bptt):
    length = min(bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--bptt", type=int, default=128)
    parser.add_argument("--emsize", type=int, default=512)
    parser.add_argument("--nlayers", type=int, default=4)
    parser.add_argument("--ntokens", type=int, default=28782)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    words = args.batch_size * (args.bptt * args.steps + args.bptt // 2)
    train_data = batchify(torch.randint(0, args.ntokens, (words,)), args.batch_size).to(device)
    val_data = batchify(torch.randint(0, args.ntokens, (words // 2,)), 10).to(device)
    model = TransformerModel(args.ntokens, args.emsize, 8, args.emsize, args.nlayers).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.95)
    model.train()
    for i in range(0, train_data.size(0) - 1, args.bptt):
        data, targets = get_batch(train_data, i, args.bptt)
        mask = nn.Transformer.generate_square_subsequent_mask(len(data), device=device)
        output = model(data, mask).view(-1, args.ntokens)
        loss = criterion(output, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print(f"| {i // args.bptt:3d} batches | loss {loss.item():5.2f}")
    scheduler.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(0, args.bptt * 3, args.bptt):
            data, targets = get_batch(val_data, i, args.bptt)
            mask = nn.Transformer.generate_square_subsequent_mask(len(data), device=device)
            total += len(data) * criterion(model(data, mask).view(-1, args.ntokens), targets).item()
    print(f"validation {total / (args.bptt * 3):.3f}")


if __name__ == "__main__":
    main()
