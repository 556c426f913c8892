"""A small temporal fusion transformer: gated residual units, LSTMs, quantiles; evaluation
between epochs.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class GatedResidual(nn.Module):
    def __init__(self, n_in, width, n_out):
        super().__init__()
        self.a, self.b = nn.Linear(n_in, width), nn.Linear(width, 2 * n_out)
        self.skip = nn.Linear(n_in, n_out) if n_in != n_out else nn.Identity()
        self.norm = nn.LayerNorm(n_out)

    def forward(self, x):
        return self.norm(
            self.skip(x) + F.glu(F.dropout(self.b(F.elu(self.a(x))), 0.1, self.training))
        )


class Select(nn.Module):
    def __init__(self, variables, width):
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.each = nn.ModuleList(GatedResidual(width, width, width) for _ in range(variables))
        self.weights = GatedResidual(variables * width, width, variables)

    def forward(self, x):
        parts = [embed(x[..., i : i + 1]) for i, embed in enumerate(self.embed)]
        weight = self.weights(torch.cat(parts, -1)).softmax(-1)
        parts = torch.stack([unit(p) for unit, p in zip(self.each, parts)], -1)
        return (parts * weight.unsqueeze(-2)).sum(-1)


class Fusion(nn.Module):
    def __init__(self, past, known, width, quantiles):
        super().__init__()
        self.past, self.known = Select(past, width), Select(known, width)
        self.encoder, self.decoder = (
            nn.LSTM(width, width, 2, batch_first=True),
            nn.LSTM(width, width, 2, batch_first=True),
        )
        self.gate = GatedResidual(width, width, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.after = GatedResidual(width, width, width)
        self.out = nn.Linear(width, quantiles)

    def forward(self, past, known):
        a, state = self.encoder(self.past(past))
        b, _ = self.decoder(self.known(known), state)
        x = self.gate(torch.cat([a, b], 1))
        n, m = x.shape[1], b.shape[1]
        mask = torch.ones(m, n, dtype=torch.bool, device=x.device).triu(n - m + 1)
        y, _ = self.attention(x[:, -m:], x, x, attn_mask=mask)
        return self.out(self.after(x[:, -m:] + y))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--past", type=int, default=168)
    parser.add_argument("--ahead", type=int, default=24)
    parser.add_argument("--width", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(0)
    levels = torch.tensor([0.1, 0.5, 0.9]).cuda()
    model = Fusion(8, 4, args.width, 3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    count = 2 * args.batch_size
    data = TensorDataset(
        torch.randn(count, args.past, 8),
        torch.randn(count, args.ahead, 4),
        torch.randn(count, args.ahead),
    )
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=1)

    def loss_of(past, known, truth):
        error = truth.cuda()[..., None] - model(past.cuda(), known.cuda())
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    for epoch in range(2):
        model.train()
        for batch in loader:
            loss = loss_of(*batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(epoch, loss.item(), sum(loss_of(*batch).item() for batch in loader))


if __name__ == "__main__":
    main()
