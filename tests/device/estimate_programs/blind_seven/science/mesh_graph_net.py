"""MeshGraphNets for a flow around obstacles: encode nodes and edges of a triangle mesh, pass
messages with scatter sums, decode accelerations. Inputs are normalised online.
"""

import argparse

import torch
import torch.nn as nn


def mlp(c_in, hidden, c_out, norm=True):
    layers = [
        nn.Linear(c_in, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, c_out),
    ]
    if norm:
        layers.append(nn.LayerNorm(c_out))
    return nn.Sequential(*layers)


class Normalizer(nn.Module):
    """Running mean and deviation of what it has seen."""

    def __init__(self, size, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("total", torch.zeros(size))
        self.register_buffer("squares", torch.zeros(size))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.count += x.shape[0]
                self.total += x.sum(0)
                self.squares += x.pow(2).sum(0)
        mean = self.total / self.count
        std = (self.squares / self.count - mean**2).clamp(min=0).sqrt().clamp(min=self.eps)
        return (x - mean) / std

    def inverse(self, x):
        mean = self.total / self.count
        std = (self.squares / self.count - mean**2).clamp(min=0).sqrt().clamp(min=self.eps)
        return x * std + mean


class Processor(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.edge_mlp = mlp(3 * latent, latent, latent)
        self.node_mlp = mlp(2 * latent, latent, latent)

    def forward(self, nodes, edges, senders, receivers):
        new_edges = self.edge_mlp(torch.cat([nodes[senders], nodes[receivers], edges], dim=-1))
        gathered = torch.zeros_like(nodes)
        index = receivers.unsqueeze(-1).expand_as(new_edges)
        gathered = gathered.scatter_add(0, index, new_edges)
        new_nodes = self.node_mlp(torch.cat([nodes, gathered], dim=-1))
        return nodes + new_nodes, edges + new_edges


class MeshGraphNet(nn.Module):
    def __init__(self, node_in, edge_in, out, latent, steps):
        super().__init__()
        self.node_norm = Normalizer(node_in)
        self.edge_norm = Normalizer(edge_in)
        self.out_norm = Normalizer(out)
        self.node_encoder = mlp(node_in, latent, latent)
        self.edge_encoder = mlp(edge_in, latent, latent)
        self.processors = nn.ModuleList(Processor(latent) for _ in range(steps))
        self.decoder = mlp(latent, latent, out, norm=False)

    def forward(self, nodes, edges, senders, receivers):
        x = self.node_encoder(self.node_norm(nodes))
        e = self.edge_encoder(self.edge_norm(edges))
        for processor in self.processors:
            x, e = processor(x, e, senders, receivers)
        return self.decoder(x)


def grid_mesh(rows, cols, generator):
    """Triangles over a jittered grid: every square has one diagonal."""
    index = torch.arange(rows * cols).view(rows, cols)
    pairs = torch.cat(
        [
            torch.stack([index[:, :-1].flatten(), index[:, 1:].flatten()]),
            torch.stack([index[:-1].flatten(), index[1:].flatten()]),
            torch.stack([index[:-1, :-1].flatten(), index[1:, 1:].flatten()]),
        ],
        dim=1,
    )
    y, x = torch.meshgrid(torch.linspace(0, 1, rows), torch.linspace(0, 2, cols), indexing="ij")
    position = torch.stack([x.flatten(), y.flatten()], dim=-1)
    position = position + torch.randn(position.shape, generator=generator) * 0.2 / rows
    kind = torch.zeros(rows, cols, dtype=torch.long)
    kind[0], kind[-1], kind[:, 0], kind[:, -1] = 1, 1, 2, 3
    return position, kind.flatten(), torch.cat([pairs, pairs.flip(0)], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8, help="meshes in a batch")
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--cols", type=int, default=80)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--message-steps", type=int, default=12)
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--iterations", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda")
    model = MeshGraphNet(2 + 4, 3, 2, args.latent, args.message_steps).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.999)

    model.train()
    for it in range(args.iterations):
        positions, kinds, pairs, start = [], [], [], 0
        for _ in range(args.batch_size):
            # Meshes of a data set differ in size.
            cols = args.cols + int(torch.randint(-4, 5, (1,), generator=generator))
            position, kind, edge = grid_mesh(args.rows, cols, generator)
            positions.append(position)
            kinds.append(kind)
            pairs.append(edge + start)
            start += len(position)
        position = torch.cat(positions).to(device)
        kind = torch.cat(kinds).to(device)
        senders, receivers = torch.cat(pairs, dim=1).to(device)

        velocity = torch.stack(
            [torch.sin(3 * position[:, 1]), 0.3 * torch.cos(2 * position[:, 0])], dim=-1
        )
        target = velocity.flip(-1) * 0.1 - 0.05 * velocity
        velocity = velocity + args.noise * torch.randn_like(velocity)
        nodes = torch.cat([velocity, nn.functional.one_hot(kind, 4).float()], dim=-1)
        offset = position[senders] - position[receivers]
        edges = torch.cat([offset, offset.norm(dim=-1, keepdim=True)], dim=-1)

        prediction = model(nodes, edges, senders, receivers)
        error = (prediction - model.out_norm(target)).pow(2).sum(dim=-1)
        inside = (kind == 0) | (kind == 3)
        loss = error[inside].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"iteration {it} nodes {len(nodes)} edges {len(edges)} loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        for _ in range(3):
            nodes = torch.cat([velocity, nn.functional.one_hot(kind, 4).float()], dim=-1)
            change = model.out_norm.inverse(model(nodes, edges, senders, receivers))
            velocity = velocity + change
    print(f"speed after the rollout {velocity.norm(dim=-1).mean().item():.4f}")


if __name__ == "__main__":
    main()
