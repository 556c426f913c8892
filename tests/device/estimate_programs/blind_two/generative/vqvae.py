"""A VQ-VAE: residual encoder and decoder, a codebook by moving averages, dead codes restarted."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class ResidualStack(nn.Module):
    def __init__(self, channels, hidden, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(),
                nn.Conv2d(channels, hidden, 3, padding=1, bias=False),
                nn.ReLU(),
                nn.Conv2d(hidden, channels, 1, bias=False),
            )
            for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return F.relu(x)


class Codebook(nn.Module):
    def __init__(self, codes, dim, decay=0.99, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        embedding = torch.randn(codes, dim)
        self.register_buffer("embedding", embedding)
        self.register_buffer("cluster_size", torch.ones(codes))
        self.register_buffer("average", embedding.clone())

    def forward(self, z):
        z = z.permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.size(-1))
        distances = (
            flat.pow(2).sum(1, keepdim=True)
            + self.embedding.pow(2).sum(1)
            - 2 * flat @ self.embedding.t()
        )
        indices = distances.argmin(1)
        onehot = F.one_hot(indices, len(self.embedding)).type(flat.dtype)
        quantized = F.embedding(indices, self.embedding).view(z.shape)
        if self.training:
            self.update(flat.detach(), onehot)
        commitment = F.mse_loss(z, quantized.detach())
        quantized = z + (quantized - z).detach()
        probs = onehot.mean(0)
        perplexity = torch.exp(-(probs * (probs + 1e-10).log()).sum())
        return quantized.permute(0, 3, 1, 2).contiguous(), commitment, perplexity

    @torch.no_grad()
    def update(self, flat, onehot):
        counts, sums = onehot.sum(0), onehot.t() @ flat
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(counts)
            dist.all_reduce(sums)
        self.cluster_size.mul_(self.decay).add_(counts, alpha=1 - self.decay)
        self.average.mul_(self.decay).add_(sums, alpha=1 - self.decay)
        n = self.cluster_size.sum()
        size = (self.cluster_size + self.eps) / (n + len(counts) * self.eps) * n
        self.embedding.copy_(self.average / size.unsqueeze(1))
        dead = self.cluster_size < 0.5
        if dead.any():
            random = flat[torch.randint(0, len(flat), (int(dead.sum()),), device=flat.device)]
            self.embedding[dead] = random
            self.average[dead] = random
            self.cluster_size[dead] = 1.0


class VQVAE(nn.Module):
    def __init__(self, channels, hidden, codes, dim):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, channels // 2, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 2, channels, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1),
            ResidualStack(channels, hidden),
            nn.Conv2d(channels, dim, 1),
        )
        self.codebook = Codebook(codes, dim)
        self.decoder = nn.Sequential(
            nn.Conv2d(dim, channels, 3, 1, 1),
            ResidualStack(channels, hidden),
            nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(channels // 2, 3, 4, 2, 1),
        )

    def forward(self, x):
        quantized, commitment, perplexity = self.codebook(self.encoder(x))
        return self.decoder(quantized), commitment, perplexity


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--image", type=int, default=128)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--codes", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VQVAE(args.channels, args.channels // 4, args.codes, args.dim).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
    variance = 1 / 12
    history = []
    for step in range(args.steps):
        data = torch.rand(args.batch_size, 3, args.image, args.image).to(device) - 0.5
        optimizer.zero_grad()
        reconstruction, commitment, perplexity = model(data)
        error = F.mse_loss(reconstruction, data) / variance
        loss = error + 0.25 * commitment
        loss.backward()
        optimizer.step()
        history.append(error.item())
        print(f"{step}: error {history[-1]:.3f}, perplexity {perplexity.item():.1f}")
    model.eval()
    with torch.no_grad():
        reconstruction, _, _ = model(data)
        mse = F.mse_loss(reconstruction, data)
    print(f"PSNR {-10 * torch.log10(mse).item():.2f} dB")


if __name__ == "__main__":
    main()
