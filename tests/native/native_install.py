"""The native build, installed: what `cmake --install` puts where people look for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from native_tree import native_build, run


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of an installation of the native build."""
    build = native_build()
    if not (build / "gpumemprof").exists():
        pytest.skip(f"there is no native build: cmake --preset test && cmake --build {build}")
    prefix = tmp_path_factory.mktemp("native") / "prefix"
    run(["cmake", "--install", build, "--prefix", prefix])
    return prefix
