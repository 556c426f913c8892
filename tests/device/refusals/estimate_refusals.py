"""Which calls torch refuses on a GPU, and whether `gpumemprof estimate` refuses the same ones.

usage: python tests/device/refusals/estimate_refusals.py [--outcomes]

`--outcomes` prints what each call does here, and compares nothing. It needs a GPU, and takes about
a minute.

Each call has types or shapes that some kernel has no code for. They run on the GPU, and once more
in a process that `gpumemprof estimate` runs. The last line is JSON: how many calls agree, and both
outcomes of those that do not. Calls that fail in both, with other words, are listed apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

d = "cuda"
h, b = torch.float16, torch.bfloat16


def f(*shape: int, dt: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=d).to(dt)


def g(*shape: int, dt: torch.dtype = torch.float32) -> torch.Tensor:
    return f(*shape, dt=dt).requires_grad_()


def L(*shape: int) -> torch.Tensor:  # noqa: N802
    return torch.ones(*shape, dtype=torch.int64, device=d)


# fmt: off
CALLS = {
    "linear_half_w": lambda: F.linear(f(4,8),f(3,8,dt=h)),
    "linear_bias": lambda: F.linear(f(4,8,dt=h),f(3,8,dt=h),f(3)),
    "linear_3d": lambda: F.linear(f(2,4,8,dt=b),f(3,8)),
    "linear_3d_bias": lambda: F.linear(f(2,4,8,dt=b),f(3,8),f(3)),
    "matmul_bmm": lambda: f(2,4,8)@f(2,8,3,dt=h),
    "matmul_4d": lambda: f(2,2,4,8)@f(2,2,8,3,dt=h),
    "matmul_nd": lambda: f(2,2,4,8)@f(8,3,dt=h),
    "mv": lambda: f(4,8)@f(8,dt=h),
    "dot": lambda: torch.dot(f(8),f(8,dt=h)),
    "vdot": lambda: torch.vdot(f(8),f(8,dt=h)),
    "einsum": lambda: torch.einsum("bij,bjk->bik",f(2,4,8),f(2,8,3,dt=h)),
    "baddbmm": lambda: torch.baddbmm(f(2,4,3,dt=h),f(2,4,8),f(2,8,3)),
    "baddbmm2": lambda: torch.baddbmm(f(2,4,3),f(2,4,8),f(2,8,3,dt=h)),
    "addmm_self": lambda: torch.addmm(f(3,dt=h),f(4,8),f(8,3)),
    "addbmm": lambda: torch.addbmm(f(4,3),f(2,4,8),f(2,8,3,dt=h)),
    "addmv": lambda: torch.addmv(f(4),f(4,8),f(8,dt=h)),
    "addr": lambda: torch.addr(f(4,8),f(4),f(8,dt=h)),
    "bilinear": lambda: F.bilinear(f(4,8),f(4,8,dt=h),f(3,8,8)),
    "conv1d": lambda: F.conv1d(f(1,3,10),f(4,3,3,dt=h)),
    "conv2d": lambda: F.conv2d(f(1,3,10,10,dt=h),f(4,3,3,3)),
    "conv2d_bias": lambda: F.conv2d(f(1,3,10,10,dt=h),f(4,3,3,3,dt=h),f(4)),
    "conv3d": lambda: F.conv3d(f(1,3,5,5,5),f(4,3,3,3,3,dt=b)),
    "convT": lambda: F.conv_transpose2d(f(1,3,10,10),f(3,4,3,3,dt=h)),
    "conv_int": lambda: F.conv2d(torch.ones(1,3,9,9,dtype=torch.int64,device=d),f(4,3,3,3)),
    "conv_channels": lambda: F.conv2d(f(1,5,10,10),f(4,3,3,3)),
    "batch_norm": lambda: F.batch_norm(f(2,3,4,4,dt=h),f(3,dt=h),f(3,dt=h),f(3,dt=h),f(3,dt=h)),
    "batch_norm_mix": lambda: F.batch_norm(f(2,3,4,4),torch.zeros(3,device=d),torch.ones(3,device=d),f(3,dt=h),f(3,dt=h)),  # noqa: E501
    "layer_norm": lambda: F.layer_norm(f(2,8,dt=h),(8,),f(8),f(8)),
    "layer_norm2": lambda: F.layer_norm(f(2,8),(8,),f(8,dt=h),f(8,dt=h)),
    "group_norm": lambda: F.group_norm(f(2,8,3,dt=h),2,f(8),f(8)),
    "rms_norm": lambda: F.rms_norm(f(2,8,dt=h),(8,),f(8)),
    "embedding_float": lambda: F.embedding(f(3),f(10,4)),
    "cross_entropy_int": lambda: F.cross_entropy(f(4,5),torch.zeros(4,dtype=torch.int32,device=d)),
    "cross_entropy_half_tgt": lambda: F.cross_entropy(f(4,5),f(4,5,dt=h)),
    "mse_int": lambda: F.mse_loss(f(4),torch.ones(4,device=d,dtype=torch.int64)),
    "bce_half": lambda: F.binary_cross_entropy(f(4).sigmoid(),f(4,dt=h)),
    "bce_size": lambda: F.binary_cross_entropy(f(4).sigmoid(),f(4,1)),
    "bcel_size": lambda: F.binary_cross_entropy_with_logits(f(4),f(4,1)),
    "lstm_half": lambda: torch.nn.LSTM(8,8).to(d)(f(3,2,8,dt=h)),
    "gru_cell": lambda: torch.nn.GRUCell(8,8).to(d)(f(2,8,dt=h)),
    "mha": lambda: torch.nn.MultiheadAttention(8,2).to(d)(*[f(3,2,8,dt=h)]*3),
    "sdpa_mix": lambda: F.scaled_dot_product_attention(f(1,2,4,8),f(1,2,4,8,dt=h),f(1,2,4,8,dt=h)),
    "index_put": lambda: f(4).index_put_((torch.tensor([1],device=d),),f(1,dt=h)),
    "scatter": lambda: f(4).scatter_(0,torch.tensor([1],device=d),f(1,dt=h)),
    "scatter_add": lambda: f(4).scatter_add_(0,torch.tensor([1],device=d),f(1,dt=h)),
    "index_add": lambda: f(4).index_add_(0,torch.tensor([1],device=d),f(1,dt=h)),
    "index_copy": lambda: f(4).index_copy_(0,torch.tensor([1],device=d),f(1,dt=h)),
    "masked_scatter": lambda: f(4).masked_scatter_(torch.ones(4,dtype=torch.bool,device=d),f(4,dt=h)),  # noqa: E501
    "masked_fill": lambda: f(4).masked_fill_(torch.ones(4,device=d),0.),
    "where_cond": lambda: torch.where(f(4),f(4),f(4)),
    "gather_int32": lambda: f(4,4).gather(0,torch.zeros(4,4,dtype=torch.int32,device=d)),
    "gather_float": lambda: f(4,4).gather(0,f(4,4)),
    "index_float": lambda: f(4)[f(2)],
    "solve_half": lambda: torch.linalg.solve(f(4,4,dt=h),f(4,4,dt=h)),
    "inv_half": lambda: torch.linalg.inv(f(4,4,dt=h)),
    "qr_half": lambda: torch.linalg.qr(f(4,4,dt=h)),
    "eigh_half": lambda: torch.linalg.eigh(f(4,4,dt=h)),
    "fft_bf16": lambda: torch.fft.fft(f(4,8,dt=b)),
    "stft_half": lambda: torch.stft(f(1,400,dt=h),100,return_complex=True),
    "lerp": lambda: torch.lerp(f(4),f(4,dt=h),0.5),
    "addcmul": lambda: torch.addcmul(f(4),f(4,dt=h),f(4)),
    "cat_ok": lambda: torch.cat([f(4),f(4,dt=h)]),
    "grid_sample": lambda: F.grid_sample(f(1,3,4,4),f(1,2,2,2,dt=h)),
    "prelu": lambda: F.prelu(f(2,3),f(3,dt=h)),
    "dropout_int": lambda: F.dropout(torch.ones(4,dtype=torch.int64,device=d)),
    "softmax_int": lambda: torch.softmax(torch.ones(4,dtype=torch.int64,device=d),0),
    "mean_int": lambda: torch.ones(4,dtype=torch.int64,device=d).mean(),
    "requires_grad_int": lambda: torch.ones(4,dtype=torch.int64,device=d).requires_grad_(),
    "matmul_shape": lambda: f(4,8)@f(4,8),
    "bool_sub": lambda: torch.ones(4,dtype=torch.bool,device=d)-torch.ones(4,dtype=torch.bool,device=d),  # noqa: E501
    "neg_bool": lambda: -torch.ones(4,dtype=torch.bool,device=d),
    "cdist": lambda: torch.cdist(f(4,3),f(4,3,dt=h)),
    "cdist_half": lambda: torch.cdist(f(4,3,dt=h),f(4,3,dt=h)),
    "kl": lambda: F.kl_div(f(4,5),f(4,5,dt=h)),
    "nll_shape": lambda: F.nll_loss(f(4,5),torch.zeros(5,dtype=torch.int64,device=d)),
    "one_hot_float": lambda: F.one_hot(f(4),5),
    "bincount_float": lambda: torch.bincount(f(4)),
    "cumsum_bool_ok": lambda: torch.ones(4,dtype=torch.bool,device=d).cumsum(0),
    "tril_ok": lambda: torch.tril(f(4,4)),
    "mm_int": lambda: torch.ones(4,4,dtype=torch.int64,device=d)@torch.ones(4,4,dtype=torch.int64,device=d),  # noqa: E501
    "bmm_int": lambda: torch.ones(2,4,4,dtype=torch.int64,device=d)@torch.ones(2,4,4,dtype=torch.int64,device=d),  # noqa: E501
    "numpy_grad": lambda: f(4).cpu().requires_grad_().numpy(),
    "inplace_leaf": lambda: f(4).requires_grad_().add_(1),
    "double_backward": lambda: [ (lambda y:(y.backward(),y.backward()))((f(4).requires_grad_()**2).sum())],  # noqa: E501
    "mse_int_bw": lambda: F.mse_loss(g(4),L(4)).backward(),
    "mse_half_bw": lambda: F.mse_loss(g(4),f(4,dt=h)).backward(),
    "l1_int_bw": lambda: F.l1_loss(g(4),L(4)).backward(),
    "smooth_int_bw": lambda: F.smooth_l1_loss(g(4),L(4)).backward(),
    "huber_int_bw": lambda: F.huber_loss(g(4),L(4)).backward(),
    "bce_int": lambda: F.binary_cross_entropy(g(4).sigmoid(),L(4)),
    "bcel_int_bw": lambda: F.binary_cross_entropy_with_logits(g(4),L(4)).backward(),
    "kl_int_bw": lambda: F.kl_div(g(4,5),L(4,5)).backward(),
    "ce_float_idx": lambda: F.cross_entropy(g(4,5),f(4)),
    "ce_bool": lambda: F.cross_entropy(g(4,5),L(4).bool()),
    "ce_weight": lambda: F.cross_entropy(g(4,5),L(4),weight=f(5,dt=h)),
    "nll2d_half": lambda: F.nll_loss(g(2,5,3,3),L(2,3,3),weight=f(5,dt=h)),
    "margin_rank": lambda: F.margin_ranking_loss(g(4),f(4),L(4)).backward(),
    "cosine_emb": lambda: F.cosine_embedding_loss(g(4,3),f(4,3),L(4)).backward(),
    "ctc_int": lambda: F.ctc_loss(g(5,2,4).log_softmax(2),L(2,2),L(2)*5,L(2)*2).backward(),
    "multi_margin": lambda: F.multi_margin_loss(g(4,5),L(4)).backward(),
    "multilabel": lambda: F.multilabel_margin_loss(g(4,5),L(4,5)).backward(),
    "gauss_nll": lambda: F.gaussian_nll_loss(g(4),f(4),f(4).abs()).backward(),
    "poisson": lambda: F.poisson_nll_loss(g(4),L(4)).backward(),
    "grad_dtype": lambda: g(4).sum().backward(f(1,dt=h)),
    "grad_shape": lambda: (g(4)*2).backward(f(3)),
    "set_grad_dtype": lambda: setattr(g(4),"grad",f(4,dt=h)),
    "set_grad_shape": lambda: setattr(g(4),"grad",f(3)),
    "copy_shape": lambda: f(4).copy_(f(3)),
    "out_dtype": lambda: torch.add(f(4),f(4),out=torch.empty(4,dtype=torch.int64,device=d)),
    "mm_out_dtype": lambda: torch.mm(f(4,4),f(4,4),out=torch.empty(4,4,dtype=h,device=d)),
    "iadd_int": lambda: L(4).add_(f(4)),
    "idiv_int": lambda: L(4).div_(2),
    "ipow": lambda: L(4).pow_(0.5),
    "isqrt": lambda: L(4).sqrt_(),
    "iand_float": lambda: f(4).bitwise_and(L(4)),
    "shift_float": lambda: f(4) << 1,
    "clamp_bool": lambda: L(4).bool().clamp(0,1),
    "logical_ok": lambda: f(4).logical_and(f(4)),
    "mod_complex": lambda: torch.complex(f(4),f(4)) % 2,
    "complex_mix": lambda: torch.complex(f(4),f(4,dt=h)),
    "sort_complex": lambda: torch.complex(f(4),f(4)).sort(),
    "max_pool_int": lambda: F.max_pool2d(L(1,1,4,4),2),
    "avg_pool_int": lambda: F.avg_pool2d(L(1,1,4,4),2),
    "adapt_pool_int": lambda: F.adaptive_avg_pool2d(L(1,1,4,4),2),
    "interp_int": lambda: F.interpolate(L(1,1,4,4),scale_factor=2,mode="bilinear"),
    "gelu_int": lambda: F.gelu(L(4)),
    "relu_bool": lambda: F.relu(L(4).bool()),
    "silu_int": lambda: F.silu(L(4)),
    "sigmoid_ok": lambda: L(4).sigmoid(),
    "ln_int": lambda: F.layer_norm(L(2,4),(4,)),
    "bn_int": lambda: F.batch_norm(L(2,3,4,4),torch.zeros(3,device=d),torch.ones(3,device=d)),
    "bn_train_1": lambda: F.batch_norm(f(1,3),torch.zeros(3,device=d),torch.ones(3,device=d),training=True),  # noqa: E501
    "in_1": lambda: F.instance_norm(f(1,3,1)),
    "gn_div": lambda: F.group_norm(f(1,6,3),4),
    "emb_bag": lambda: F.embedding_bag(L(4),f(5,3)),
    "emb_dtype16": lambda: F.embedding(torch.ones(3,dtype=torch.int16,device=d),f(5,3)),
    "unfold_int": lambda: F.unfold(L(1,1,4,4),2),
    "pad_reflect": lambda: F.pad(f(1,1,3),(4,4),mode="reflect"),
    "view_bad": lambda: f(4,4).t().view(16),
    "view_size": lambda: f(4).view(3),
    "expand_bad": lambda: f(4).expand(3),
    "cat_shape": lambda: torch.cat([f(2,3),f(2,4)]),
    "stack_shape": lambda: torch.stack([f(2,3),f(2,4)]),
    "split_bad": lambda: f(5).split([2,2]),
    "chunk0": lambda: f(5).chunk(0),
    "topk_k": lambda: f(5).topk(9),
    "index_dim": lambda: f(5).sum(3),
    "select_oob": lambda: f(5)[7],
    "narrow": lambda: f(5).narrow(0,3,9),
    "randint_bad": lambda: torch.randint(5,5,(3,),device=d),
    "bernoulli_int": lambda: torch.bernoulli(L(4)),
    "multinomial_0": lambda: torch.multinomial(f(4).abs(),9),
    "normal_int": lambda: L(4).normal_(),
    "uniform_int": lambda: L(4).uniform_(),
    "randn_int": lambda: torch.randn(4,dtype=torch.int64,device=d),
    "chol_nonsq": lambda: torch.linalg.cholesky(f(3,4)),
    "det_half": lambda: torch.linalg.det(f(3,3,dt=h)),
    "svd_half": lambda: torch.linalg.svd(f(3,3,dt=h)),
    "lstsq_half": lambda: torch.linalg.lstsq(f(3,3,dt=h),f(3,3,dt=h)),
    "norm_int": lambda: L(4).norm(),
    "std_int": lambda: L(4).std(),
    "var_int": lambda: L(4).var(),
    "median_bool": lambda: L(4).bool().median(),
    "argmax_bool": lambda: L(4).bool().argmax(),
    "cumprod_ok": lambda: f(4).cumprod(0),
    "hist": lambda: torch.histc(L(4)),
    "unique_ok": lambda: torch.unique(L(4)),
    "lerp_w": lambda: torch.lerp(f(4),f(4),f(4,dt=h)),
    "addcdiv_int": lambda: torch.addcdiv(L(4),L(4),L(4)),
    "erf_int_ok": lambda: L(4).erf(),
    "conv_dil": lambda: F.conv2d(f(1,3,2,2),f(4,3,3,3)),
    "convt_ch": lambda: F.conv_transpose2d(f(1,5,4,4),f(3,4,3,3)),
    "conv_groups": lambda: F.conv2d(f(1,4,5,5),f(4,4,3,3),groups=3),
    "mha_dim": lambda: torch.nn.MultiheadAttention(8,2).to(d)(f(3,2,6),f(3,2,6),f(3,2,6)),
    "lstm_size": lambda: torch.nn.LSTM(8,8).to(d)(f(3,2,6)),
    "optim_int": lambda: torch.optim.SGD([L(4)],0.1),
    "optim_nonleaf": lambda: torch.optim.SGD([g(4)*2],0.1),
    "load_sd": lambda: torch.nn.Linear(4,4).to(d).load_state_dict({"weight":f(3,3)}),
    "param_int": lambda: torch.nn.Parameter(L(3)),
    "buf_half": lambda: torch.nn.BatchNorm1d(3).to(d).half()(f(2,3)),
    "inplace_saved": lambda: (lambda w: (lambda y: (y.add_(1), y.sum().backward()))(w.exp()))(g(3)),
    "addmm_shape": lambda: torch.addmm(f(3),f(4,8),f(7,3)),
    "bmm_batch": lambda: torch.bmm(f(2,3,4),f(3,4,5)),
    "einsum_bad": lambda: torch.einsum("ij,jk->ik",f(2,3),f(4,5)),
    "tensordot": lambda: torch.tensordot(f(2,3),f(4,5),1),
    "scatter_i32": lambda: f(4).scatter_(0,torch.tensor([1],dtype=torch.int32,device=d),1.0),
    "take_float": lambda: f(4).take(f(2)),
    "bucket": lambda: torch.bucketize(f(4),L(3)),
    "searchs": lambda: torch.searchsorted(f(4),f(4,dt=h)),
    "interp_bf": lambda: F.interpolate(f(1,1,4,4,dt=b),scale_factor=2,mode="bicubic"),
    "pixel_sh": lambda: F.pixel_shuffle(f(1,3,4,4),2),
    "glu_odd": lambda: F.glu(f(3)),
    "triplet": lambda: F.triplet_margin_loss(g(4,3),f(4,3),f(4,3)).backward(),
}
# fmt: on


def outcome(call: Any) -> str:
    """``ok`` and the type of the result, or the error."""
    try:
        found = call()
        torch.cuda.synchronize()
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"
    return f"ok {getattr(found, 'dtype', '')}".strip()


def outcomes() -> dict[str, str]:
    warnings.simplefilter("ignore")
    return {name: outcome(call) for name, call in CALLS.items()}


def predicted() -> dict[str, str]:
    """The same, in a process that is predicted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.json"
        command = [sys.executable, "-m", "gpumemprof", "estimate", __file__, "--outcomes"]
        environment = {**os.environ, "OUTCOMES": str(path)}
        subprocess.run(command, env=environment, capture_output=True, check=False)
        found: dict[str, str] = json.loads(path.read_text())
    return found


def main() -> int:
    if "--outcomes" in sys.argv:
        text = json.dumps(outcomes(), indent=1)
        if "OUTCOMES" in os.environ:
            Path(os.environ["OUTCOMES"]).write_text(text)
        else:
            print(text)
        return 0
    real, guessed = outcomes(), predicted()
    differ, worded = {}, {}
    for name, found in real.items():
        other = guessed.get(name, "missing")
        if found.startswith("ok") != other.startswith("ok"):
            differ[name] = {"gpu": found, "estimate": other}
        elif found != other:
            worded[name] = {"gpu": found, "estimate": other}
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "calls": len(real),
                "agree": len(real) - len(differ) - len(worded),
                "differ": differ,
                "other_words": worded,
            }
        )
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
