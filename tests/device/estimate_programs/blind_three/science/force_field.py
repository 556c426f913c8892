"""Energies and forces of atoms: a SchNet-like network, forces by autograd, trained through them."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Interaction(nn.Module):
    def __init__(self, width, waves):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(waves, width), nn.Softplus(), nn.Linear(width, width))
        self.before = nn.Linear(width, width, bias=False)
        self.after = nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width))

    def forward(self, h, source, target, basis, fade):
        messages = self.before(h)[source] * self.filter(basis) * fade
        gathered = torch.zeros_like(h).index_add(0, target, messages)
        return h + self.after(gathered)


class Potential(nn.Module):
    def __init__(self, width, waves, layers, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.elements = nn.Embedding(20, width)
        self.register_buffer("centres", torch.linspace(0, cutoff, waves))
        self.layers = nn.ModuleList(Interaction(width, waves) for _ in range(layers))
        self.out = nn.Sequential(
            nn.Linear(width, width // 2), nn.Softplus(), nn.Linear(width // 2, 1)
        )

    def forward(self, elements, places, source, target, batch, systems):
        vectors = places[source] - places[target]
        distance = (vectors.square().sum(-1) + 1e-12).sqrt()
        basis = torch.exp(-10 * (distance[:, None] - self.centres).square())
        fade = 0.5 * (torch.cos(torch.pi * distance / self.cutoff) + 1)[:, None]
        h = self.elements(elements)
        for layer in self.layers:
            h = layer(h, source, target, basis, fade)
        per_atom = self.out(h).squeeze(-1)
        return per_atom.new_zeros(systems).scatter_add(0, batch, per_atom)


def neighbours(places, batch, cutoff):
    """All pairs of one system that are nearer than the cutoff."""
    near = torch.cdist(places, places) < cutoff
    near &= batch[:, None] == batch[None, :]
    near.fill_diagonal_(False)
    return near.nonzero(as_tuple=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=48)
    parser.add_argument("--atoms", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--waves", type=int, default=50)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--cutoff", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Potential(args.width, args.waves, args.layers, args.cutoff).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    n = args.systems * args.atoms
    side = round(args.atoms ** (1 / 3) + 0.5)
    lattice = torch.cartesian_prod(*[torch.arange(side).float()] * 3)[: args.atoms]
    for step in range(args.steps):
        places = (1.8 * lattice + 0.2 * torch.randn(args.systems, args.atoms, 3)).view(n, 3)
        places = places.to(device).requires_grad_()
        batch = torch.arange(args.systems, device=device).repeat_interleave(args.atoms)
        elements = torch.randint(1, 20, (n,), device=device)
        with torch.no_grad():
            source, target = neighbours(places, batch, args.cutoff)
        energy = model(elements, places, source, target, batch, args.systems)
        forces = -torch.autograd.grad(energy.sum(), places, create_graph=True)[0]
        wanted_energy = torch.randn(args.systems, device=device)
        wanted_forces = 0.1 * torch.randn(n, 3, device=device)
        loss = F.mse_loss(energy / args.atoms, wanted_energy)
        loss = loss + 100 * F.mse_loss(forces, wanted_forces)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        print(f"step {step}: {len(source)} pairs, {loss.item():.4f}")


if __name__ == "__main__":
    main()
