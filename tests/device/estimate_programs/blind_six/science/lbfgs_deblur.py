"""Deblurring by L-BFGS with a strong Wolfe search: products in Fourier space and total
variation.
"""

import argparse

import torch
import torch.nn.functional as F


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--inner", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    line = torch.arange(-7, 8).float()
    kernel = torch.exp(-(line[:, None] ** 2 + line[None] ** 2) / 12)
    kernel = F.pad(kernel / kernel.sum(), (0, args.size - 15, 0, args.size - 15)).roll(
        (-7, -7), (0, 1)
    )
    response = torch.fft.rfft2(kernel).to("cuda")
    sharp = torch.rand(args.images, 3, args.size, args.size).to("cuda")
    blurred = torch.fft.irfft2(torch.fft.rfft2(sharp) * response, s=(args.size, args.size))
    blurred = blurred + 0.01 * torch.randn_like(blurred)
    guess = blurred.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        [guess], lr=1.0, max_iter=args.inner, history_size=8, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        again = torch.fft.irfft2(torch.fft.rfft2(guess) * response, s=(args.size, args.size))
        dx, dy = guess[..., 1:] - guess[..., :-1], guess[..., 1:, :] - guess[..., :-1, :]
        loss = (again - blurred).square().mean() + 1e-3 * (dx.abs().mean() + dy.abs().mean())
        loss.backward()
        return loss

    for step in range(args.steps):
        print(step, optimizer.step(closure).item())
    print(-10 * torch.log10(F.mse_loss(guess.detach(), sharp)).item())


if __name__ == "__main__":
    main()
