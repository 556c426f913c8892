"""Operations on series, images and volumes: transforms, pooling, resizing, norms."""

from __future__ import annotations

from typing import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom

from estimate_cases.bodies import Body

Op = Callable[[torch.Tensor], Body]
SERIES = ((4, 16, 1000), (8, 64, 512), (1, 1, 100000), (3, 7, 4099), (32, 128, 96), (2, 3, 16384))
IMAGES = ((2, 16, 32, 32), (4, 64, 14, 14), (1, 3, 224, 224), (2, 3, 61, 67), (8, 256, 7, 7))
VOLUMES = ((2, 8, 8, 16, 16), (1, 16, 4, 28, 28), (2, 3, 9, 10, 11))


def new(x: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.rand(shape, device=x.device, dtype=x.dtype).requires_grad_()


def of(make: Callable[[torch.Tensor], torch.Tensor], run: Callable[..., object]) -> Op:
    def op(x: torch.Tensor) -> Body:
        made = make(x)
        return lambda: run(x, made)

    return op


def window(x: torch.Tensor) -> torch.Tensor:
    return torch.hann_window(400, device=x.device)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x.detach()).requires_grad_()


def spectrum_2d(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft2(x.detach().float()).requires_grad_()


def series_ops() -> dict[str, Op]:
    return {
        "fft": lambda x: lambda: torch.fft.fft(x),
        "fft_double": lambda x: lambda: torch.fft.fft(x.detach().double()),
        "fft_complex": of(
            lambda x: x.detach().cfloat().requires_grad_(), lambda _, c: torch.fft.fft(c)
        ),
        "ifft": of(lambda x: x.detach().cfloat().requires_grad_(), lambda _, c: torch.fft.ifft(c)),
        "fft_rows": of(lambda x: x.detach().cfloat(), lambda _, c: torch.fft.fft(c, dim=1)),
        "rfft": lambda x: lambda: torch.fft.rfft(x),
        "rfft_padded": lambda x: lambda: torch.fft.rfft(x, n=2 * x.size(-1)),
        "rfft_ortho": lambda x: lambda: torch.fft.rfft(x, norm="ortho"),
        "irfft": of(spectrum, lambda x, s: torch.fft.irfft(s, n=x.size(-1))),
        "fft_conv": lambda x: lambda: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x)),
        "hfft": of(spectrum, lambda x, s: torch.fft.hfft(s)),
        "fftshift": of(spectrum, lambda x, s: torch.fft.fftshift(s)),
        "stft": of(
            window,
            lambda x, w: torch.stft(
                x.flatten(0, 1), 400, 160, window=w, center=x.size(-1) > 400, return_complex=True
            ),
        ),
        "stft_real": of(
            window,
            lambda x, w: torch.view_as_real(
                torch.stft(x.flatten(0, 1), 512, 128, return_complex=True)
            ),
        ),
        "istft": of(
            lambda x: torch.stft(
                x.detach().flatten(0, 1),
                64,
                16,
                window=torch.hann_window(64, device=x.device),
                return_complex=True,
            ),
            lambda x, s: torch.istft(s, 64, 16, window=torch.hann_window(64, device=x.device)),
        ),
        "avg_pool": lambda x: lambda: F.avg_pool1d(x, 4),
        "max_pool": lambda x: lambda: F.max_pool1d(x, 4),
        "max_pool_indices": lambda x: lambda: F.max_pool1d(x, 4, return_indices=True),
        "adaptive_avg": lambda x: lambda: F.adaptive_avg_pool1d(x, 8),
        "adaptive_max": lambda x: lambda: F.adaptive_max_pool1d(x, 8),
        "lp_pool": lambda x: lambda: F.lp_pool1d(x, 2.0, 4),
        "nearest": lambda x: lambda: F.interpolate(x, scale_factor=2),
        "linear": lambda x: lambda: F.interpolate(x, scale_factor=2, mode="linear"),
        "pad_reflect": lambda x: lambda: F.pad(x, (3, 3), mode="reflect"),
        "pad_replicate": lambda x: lambda: F.pad(x, (3, 3), mode="replicate"),
        "pad_circular": lambda x: lambda: F.pad(x, (3, 3), mode="circular"),
        "unfold_dim": lambda x: lambda: x.unfold(-1, 16, 8),
        "batch_norm": lambda x: lambda: F.batch_norm(x, None, None, training=True),
        "batch_norm_rows": lambda x: (
            lambda: F.batch_norm(x.flatten(0, 1), None, None, training=True)
        ),
        "instance_norm": lambda x: lambda: F.instance_norm(x),
        "group_norm": lambda x: lambda: F.group_norm(x, 1),
        "layer_norm_1": lambda x: lambda: F.layer_norm(x, x.shape[1:]),
        "weight_norm": lambda x: lambda: torch._weight_norm(x, x[:, :1, :1].abs() + 1, 0),
        "cumsum": lambda x: lambda: x.cumsum(-1),
        "cumprod": lambda x: lambda: x.cumprod(-1),
        "cummax": lambda x: lambda: x.cummax(-1),
        "cummin": lambda x: lambda: x.cummin(1),
        "logcumsumexp": lambda x: lambda: x.logcumsumexp(-1),
        "diff": lambda x: lambda: x.diff(dim=-1),
        "quantile": lambda x: lambda: x.quantile(0.9, dim=-1),
        "quantile_all": lambda x: lambda: x.flatten().quantile(0.9),
        "nanquantile": lambda x: lambda: x.nanquantile(0.9, dim=-1),
        "median": lambda x: lambda: x.median(-1),
        "nanmedian": lambda x: lambda: x.nanmedian(-1),
        "mode": lambda x: lambda: x.mode(-1),
        "kthvalue": lambda x: lambda: x.kthvalue(3, -1),
        "msort": lambda x: lambda: torch.msort(x),
        "renorm": lambda x: lambda: x.renorm(2, 0, 1.0),
        "angle": of(spectrum, lambda x, s: (s.angle(), s.abs())),
        "polar": lambda x: lambda: torch.polar(x.abs(), x),
        "complex_mul": of(spectrum, lambda x, s: s * s.conj()),
        "complex_mean": of(spectrum, lambda x, s: (s.mean(), s.sum(-1))),
    }


def volume_ops() -> dict[str, Op]:
    return {
        "avg_pool": lambda x: lambda: F.avg_pool3d(x, 2),
        "max_pool": lambda x: lambda: F.max_pool3d(x, 2),
        "adaptive_avg": lambda x: lambda: F.adaptive_avg_pool3d(x, 2),
        "adaptive_avg_1": lambda x: lambda: F.adaptive_avg_pool3d(x, 1),
        "adaptive_max": lambda x: lambda: F.adaptive_max_pool3d(x, 2),
        "nearest": lambda x: lambda: F.interpolate(x, scale_factor=2),
        "trilinear": lambda x: lambda: F.interpolate(x, scale_factor=2, mode="trilinear"),
        "grid_sample": of(
            lambda x: new(x, x.size(0), *x.shape[2:], 3),
            lambda x, g: F.grid_sample(x, g, align_corners=False),
        ),
        "affine_grid": of(
            lambda x: new(x, x.size(0), 3, 4),
            lambda x, t: F.affine_grid(t, list(x.shape), align_corners=False),
        ),
        "pad_replicate": lambda x: lambda: F.pad(x, (1,) * 6, mode="replicate"),
        "pad_reflect": lambda x: lambda: F.pad(x, (1,) * 6, mode="reflect"),
        "batch_norm": lambda x: lambda: F.batch_norm(x, None, None, training=True),
        "instance_norm": lambda x: lambda: F.instance_norm(x),
        "group_norm": lambda x: lambda: F.group_norm(x, 1),
        "dropout3d": lambda x: lambda: F.dropout3d(x, 0.3),
        "fftn": lambda x: lambda: torch.fft.fftn(x.float(), dim=(2, 3, 4)),
        "rfftn": lambda x: lambda: torch.fft.rfftn(x.float(), dim=(2, 3, 4)),
        "flip": lambda x: lambda: x.flip(2, 3),
        "rot90": lambda x: lambda: x.rot90(1, (3, 4)),
    }


def image_ops() -> dict[str, Op]:
    return {
        "fft2": lambda x: lambda: torch.fft.fft2(x.float()),
        "rfft2": lambda x: lambda: torch.fft.rfft2(x.float()),
        "rfft2_ortho": lambda x: lambda: torch.fft.rfft2(x.float(), norm="ortho"),
        "irfft2": of(spectrum_2d, lambda x, s: torch.fft.irfft2(s, s=x.shape[-2:])),
        "unfold": lambda x: lambda: F.unfold(x, 3, padding=1),
        "fold": of(
            lambda x: F.unfold(x.detach(), 3, padding=1).requires_grad_(),
            lambda x, u: F.fold(u, x.shape[-2:], 3, padding=1),
        ),
        "affine_grid": of(
            lambda x: new(x, x.size(0), 2, 3),
            lambda x, t: F.affine_grid(t, list(x.shape), align_corners=False),
        ),
        "grid_sample_border": of(
            lambda x: new(x, x.size(0), 20, 30, 2),
            lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
        ),
        "grid_sample_bicubic": of(
            lambda x: new(x, x.size(0), 20, 30, 2),
            lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=True),
        ),
        "spatial": of(
            lambda x: new(x, x.size(0), 2, 3),
            lambda x, t: F.grid_sample(x, F.affine_grid(t, list(x.shape), align_corners=False)),
        ),
        "fractional_pool": lambda x: (
            lambda: F.fractional_max_pool2d(x, 2, output_size=x.shape[-1] // 2)
        ),
        "max_unpool": lambda x: (
            lambda: F.max_unpool2d(
                *F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]
            )
        ),
        "adaptive_max": lambda x: lambda: F.adaptive_max_pool2d(x, 3),
        "nearest_exact": lambda x: lambda: F.interpolate(x, size=(40, 40), mode="nearest-exact"),
        "bicubic_aa": lambda x: (
            lambda: F.interpolate(x, size=(20, 20), mode="bicubic", antialias=True)
        ),
        "bilinear_aa": lambda x: (
            lambda: F.interpolate(x, size=(20, 20), mode="bilinear", antialias=True)
        ),
        "gelu_none": lambda x: lambda: F.gelu(x),
        "rrelu": lambda x: lambda: F.rrelu(x, training=True),
        "rrelu_eval": lambda x: lambda: F.rrelu(x),
        "celu": lambda x: lambda: F.celu(x),
        "selu": lambda x: lambda: F.selu(x),
        "hardswish": lambda x: lambda: F.hardswish(x),
        "softshrink": lambda x: lambda: F.softshrink(x),
        "prelu": of(lambda x: new(x, x.size(1)), lambda x, w: F.prelu(x, w)),
        "prelu_1": of(lambda x: new(x, 1), lambda x, w: F.prelu(x, w)),
        "softmax2d": lambda x: lambda: x.softmax(1),
        "log_softmax2d": lambda x: lambda: x.log_softmax(1),
        "logsumexp": lambda x: lambda: x.logsumexp(1),
        "std_mean": lambda x: lambda: torch.std_mean(x, (2, 3)),
        "var_all": lambda x: lambda: x.var(),
        "gradient": lambda x: lambda: torch.gradient(x, dim=(2, 3)),
        "spectral": lambda x: lambda: torch.linalg.matrix_norm(x.float().flatten(1), 2),
        "instance_norm": lambda x: lambda: F.instance_norm(x),
        "bernoulli": lambda x: lambda: torch.bernoulli(x.detach().sigmoid()),
        "poisson": lambda x: lambda: torch.poisson(x.detach().float().abs()),
        "normal": lambda x: lambda: torch.normal(x, 1.0),
        "gamma": lambda x: lambda: torch._standard_gamma(x.float().abs() + 1),
        "lgamma": lambda x: lambda: torch.lgamma(x.abs() + 1),
        "erfinv": lambda x: lambda: torch.erfinv(x.tanh()),
        "logit": lambda x: lambda: torch.logit(x.sigmoid()),
        "atan2": lambda x: lambda: torch.atan2(x, x.flip(0)),
        "cosine": lambda x: lambda: F.cosine_similarity(x, x.flip(0), dim=1),
        "pairwise": lambda x: lambda: F.pairwise_distance(x, x.flip(0)),
        "clamp_tensor": lambda x: lambda: torch.clamp(x, x.detach() - 1, x.detach() + 1),
        "tanh_twice": lambda x: (
            lambda: torch.autograd.grad(x.tanh().sum(), x, create_graph=True)[0]
        ),
        **double_backward(),
    }


def double_backward() -> dict[str, Op]:
    return {
        "softmax_twice": lambda x: (
            lambda: torch.autograd.grad(x.softmax(1).square().sum(), x, create_graph=True)[0]
        ),
        "layer_norm_twice": lambda x: (
            lambda: torch.autograd.grad(
                F.layer_norm(x, x.shape[1:]).square().sum(), x, create_graph=True
            )[0]
        ),
        "group_norm_twice": lambda x: (
            lambda: torch.autograd.grad(F.group_norm(x, 1).square().sum(), x, create_graph=True)[0]
        ),
    }
