"""Ptychography: recover a complex object and the probe from diffraction patterns of overlapping
spots, with L-BFGS and a strong-Wolfe line search over amplitudes and phases.
"""

import argparse

import torch
import torch.nn.functional as F


def smooth_field(size, cells, generator):
    coarse = torch.rand(1, 1, cells, cells, generator=generator)
    return F.interpolate(coarse, size=(size, size), mode="bicubic")[0, 0].clamp(0, 1)


def make_probe(size):
    axis = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    radius = x**2 + y**2
    return torch.polar(torch.exp(-3 * radius), 4 * radius)


def scan(size, spot, step):
    starts = torch.arange(0, size - spot + 1, step)
    return torch.cartesian_prod(starts, starts)


def patches(field, corners, spot):
    """The windows of the object under every spot, as one tensor."""
    offset = torch.arange(spot, device=field.device)
    rows = corners[:, 0, None, None] + offset[None, :, None]
    cols = corners[:, 1, None, None] + offset[None, None, :]
    return field[rows, cols]


def diffract(field, probe, corners, spot):
    exit_wave = patches(field, corners, spot) * probe
    return torch.fft.fft2(exit_wave, norm="ortho").abs()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1536)
    parser.add_argument("--spot", type=int, default=192)
    parser.add_argument("--step", type=int, default=48)
    parser.add_argument("--history", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inner", type=int, default=6)
    args = parser.parse_args()

    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda")
    amplitude = 0.5 + 0.5 * smooth_field(args.size, 24, generator)
    phase = 1.5 * smooth_field(args.size, 32, generator)
    truth = torch.polar(amplitude, phase).to(device)
    true_probe = make_probe(args.spot).to(device)
    corners = scan(args.size, args.spot, args.step).to(device)
    with torch.no_grad():
        measured = diffract(truth, true_probe, corners, args.spot)
        noise = 0.01 * measured.mean() * torch.randn(measured.shape, generator=generator).to(device)
        measured = (measured + noise).clamp(min=0)
    print(f"{len(corners)} patterns of {args.spot}x{args.spot}")

    guess_amplitude = torch.full((args.size, args.size), 0.75, device=device, requires_grad=True)
    guess_phase = torch.full((args.size, args.size), 0.5, device=device, requires_grad=True)
    probe = torch.view_as_real(true_probe * 0.9).clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        [guess_amplitude, guess_phase, probe],
        lr=1.0,
        max_iter=args.inner,
        history_size=args.history,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimizer.zero_grad()
        field = torch.polar(guess_amplitude.abs() + 1e-6, guess_phase)
        exit_wave = patches(field, corners, args.spot) * torch.view_as_complex(probe)
        wave = torch.fft.fft2(exit_wave, norm="ortho")
        intensity = wave.real.square() + wave.imag.square()
        loss = ((intensity + 1e-6).sqrt() - measured).square().mean()
        roughness = (
            guess_phase.diff(dim=0).square().mean() + guess_phase.diff(dim=1).square().mean()
        )
        loss = loss + 1e-4 * roughness
        loss.backward()
        return loss

    for r in range(args.rounds):
        loss = optimizer.step(closure)
        print(f"round {r} loss {loss.item():.6f}")
    with torch.no_grad():
        field = torch.polar(guess_amplitude.abs(), guess_phase)
        turn = (truth.conj() * field).sum()
        error = (field * (turn.conj() / turn.abs()) - truth).abs().mean().item()
    print(f"mean error {error:.4f}")


if __name__ == "__main__":
    main()
