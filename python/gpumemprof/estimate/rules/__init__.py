"""What CUDA kernels allocate beside their results: one file per kind of operation."""

from __future__ import annotations

import importlib

__all__ = ["load_rules"]

_FILES = (
    "births",
    "matmul",
    "sparse_products",
    "attention.choice",
    "attention.memory",
    "reductions.hooks",
    "reductions.derivatives",
    "softmax",
    "norms",
    "losses",
    "sequences.ctc",
    "images",
    "embeddings",
    "foreach",
    "indexing",
    "sorting",
    "linear_algebra",
    "transforms",
    "sequences.recurrent",
    "convolution.hooks",
)


def load_rules() -> None:
    """Register all rules; the order of the files is that of the hooks of one operation."""
    for name in _FILES:
        importlib.import_module(f"{__name__}.{name}")
