"""The profilers, under the name that programs may import them by."""

from __future__ import annotations

from gpumemprof.profile.profiler import CPUMemoryProfiler, GPUMemoryProfiler, ProfiledContext

__all__ = ["CPUMemoryProfiler", "GPUMemoryProfiler", "ProfiledContext"]
