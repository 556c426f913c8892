"""Predictions in the running process, for notebooks: `estimate` and `estimating`."""

from __future__ import annotations

__all__ = ["estimate", "estimating"]


def estimate() -> None:
    """To follow."""


def estimating() -> None:
    """To follow."""
