"""What is said when the package that an integration is for is not installed."""

from __future__ import annotations

from gpumemprof.errors import EnvironmentProblem

__all__ = ["missing"]


def missing(package: str, what: str) -> EnvironmentProblem:
    """The error to raise.

    >>> print(missing("transformers", "MemoryCallback"))
    MemoryCallback needs transformers, which is not installed; run: pip install transformers
    """
    return EnvironmentProblem(
        f"{what} needs {package}, which is not installed",
        "environment",
        "",
        f"run: pip install {package}",
    )
