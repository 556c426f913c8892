"""The tables that the package ships: JSON, compressed by xz, since they are a fifth of a wheel."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from gpumemprof.errors import EnvironmentProblem

__all__ = ["shipped_json"]


def shipped_json(name: str) -> dict[str, Any]:
    """The table of this name.

    Raises:
        EnvironmentProblem: this Python was built without lzma.
    """
    try:
        import lzma
    except ImportError:
        raise EnvironmentProblem(
            "this Python was built without its module lzma, which the table of convolutions needs",
            "environment",
            hint="use another Python, or install liblzma's headers and build it again",
        ) from None
    file = resources.files("gpumemprof.estimate.rules") / "data" / f"{name}.json.xz"
    return dict(json.loads(lzma.decompress(file.read_bytes())))
