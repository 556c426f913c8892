"""What a recording needs from a simulated GPU, in place of torch's own allocator."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Simulation"]


class Simulation(Protocol):
    """A GPU that does not exist, whose events go to one recording."""

    device: int
    """Its number, as in ``cuda:0``."""
    hidden_files: list[str]
    """What the paths of the simulation's own files begin with: their frames are no one's code."""

    def begin(self) -> dict[str, str]:
        """Call once torch is imported, before the program uses it; returns facts for the file."""

    def settings(self) -> str:
        """The allocator's settings, as in PYTORCH_CUDA_ALLOC_CONF."""

    def closing(self) -> None:
        """Call before anything else when the recording is closed: it must not be interrupted."""

    def end(self) -> dict[str, str]:
        """Call before the recording is closed; returns facts for the file."""
