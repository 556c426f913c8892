"""tools/install: a wheel of the same commit, or else a build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
VERSION = "9.8.7"
NOT_BUILT = "#!/bin/sh\necho 'would build' >&2\nexit 1\n"


def write_wheel(folder: Path, tag: str) -> None:
    """A wheel of the same name that holds one module."""
    info = f"gpumemprof-{VERSION}.dist-info"
    files = {
        "gpumemprof.py": f"__version__ = {VERSION!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: gpumemprof\nVersion: {VERSION}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    folder.mkdir()
    with zipfile.ZipFile(folder / f"gpumemprof-{VERSION}-{tag}.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def git(checkout: Path, *words: str) -> str:
    name = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
    done = subprocess.run(
        ["git", *name, *words], cwd=checkout, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def python_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of a fresh virtual environment are."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources that cannot be built, with all that tools/install looks at."""
    folder = tmp_path / "checkout"
    (folder / "tools").mkdir(parents=True)
    for name in ("install", "build-functions"):
        shutil.copy(ROOT / "tools" / name, folder / "tools")
    (folder / "tools/debian-packages").write_text(NOT_BUILT)
    (folder / "tools/debian-packages").chmod(0o755)
    (folder / "VERSION").write_text(f"{VERSION}\n")
    (folder / "src").mkdir()
    (folder / "src/code.cpp").write_text("int main() {}\n")
    (folder / ".gitignore").write_text("/dist/\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Sources")
    return folder


def install(checkout: Path, python_folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "tools/install"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{python_folder}:{os.environ['PATH']}"},
    )


def add_wheel(checkout: Path, tag: str = "py3-none-any") -> None:
    write_wheel(checkout / "dist", tag)
    (checkout / "dist/commit").write_text(git(checkout, "rev-parse", "HEAD"))


def test_installs_the_wheel_of_the_same_commit(checkout: Path, python_folder: Path) -> None:
    add_wheel(checkout)
    # What no wheel is made from does not matter.
    (checkout / "notes.txt").write_text("mine\n")
    done = install(checkout, python_folder)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [python_folder / "python", "-c", "import gpumemprof; print(gpumemprof.__version__)"]
    assert subprocess.run(asked, capture_output=True, text=True).stdout == f"{VERSION}\n"


@pytest.mark.parametrize(
    "what", ["no wheel", "changed", "added", "another commit", "no repository"]
)
def test_builds_when_no_wheel_is_of_these_sources(
    checkout: Path, python_folder: Path, what: str
) -> None:
    if what != "no wheel":
        add_wheel(checkout)
    if what == "changed":
        (checkout / "src/code.cpp").write_text("int main() { return 1; }\n")
    if what == "added":
        (checkout / "src/more.cpp").write_text("int more();\n")
    if what == "another commit":
        git(checkout, "commit", "--quiet", "--allow-empty", "--message", "Another")
    if what == "no repository":
        shutil.rmtree(checkout / ".git")
    done = install(checkout, python_folder)
    assert done.returncode == 1
    assert "installing the wheel" not in done.stdout
    assert done.stderr == "would build\n"


def test_builds_when_no_wheel_is_for_this_python(checkout: Path, python_folder: Path) -> None:
    add_wheel(checkout, "cp27-none-any")
    done = install(checkout, python_folder)
    assert done.returncode == 1
    assert "No wheel in dist could be installed into this Python; building instead." in done.stdout
    assert "would build" in done.stderr
