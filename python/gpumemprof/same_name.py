"""Another distribution installs a package and a command of this name: they overwrite each other."""

from __future__ import annotations

from importlib import metadata

from gpumemprof.errors import EnvironmentProblem

__all__ = ["check_name"]

_OTHER = "gpu-memory-profiler"


def check_name() -> None:
    """Refuse to work beside it; for whoever starts a command or a recording, not for an import.

    Raises:
        EnvironmentProblem: both are installed.
    """
    try:
        metadata.distribution(_OTHER)
    except metadata.PackageNotFoundError:
        return
    raise EnvironmentProblem(
        f"the package {_OTHER} is installed too, and its files named gpumemprof mix with these",
        "environment",
        "",
        f"run: pip uninstall {_OTHER}, then install gpumemprof again",
    )
