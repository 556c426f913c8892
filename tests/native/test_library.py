"""The installed library: its headers, its symbols, and programs built against it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native_tree import ROOT, native_build, run

sys.path.insert(0, str(ROOT / "tools"))

import check_abi

pytest_plugins = ("native_install",)

DATA = ROOT / "tests/data"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow"]
WARNINGS += ["-Wcast-qual", "-Werror", "-fsyntax-only"]
HEADERS = sorted(path.relative_to(ROOT / "include") for path in ROOT.glob("include/**/*.h"))
# CMake makes it.
HEADERS.append(Path("gpumemprof/version.h"))
# For those who have libtorch; tests/integrations compiles it.
NEED_TORCH = {"gpumemprof/torch.h"}


@pytest.mark.parametrize("compiler", ["g++", "clang++-14"])
@pytest.mark.parametrize("header", [h for h in HEADERS if str(h) not in NEED_TORCH], ids=str)
def test_a_header_compiles_alone(installed: Path, compiler: str, header: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source = f"#include <{header}>\n"
    words = [compiler, "-std=c++17", *WARNINGS, "-I", installed / "include", "-x", "c++", "-"]
    run(words, input=source)


@pytest.mark.parametrize("compiler", ["g++", "clang++-14"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_a_program_that_reads_compiles_without_warnings(
    installed: Path, compiler: str, standard: str
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source = ROOT / "examples/cpp/largest_steps.cpp"
    run([compiler, f"-std={standard}", *WARNINGS, "-I", installed / "include", source])


@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_the_c_header_is_c(installed: Path, standard: str) -> None:
    words = ["gcc", f"-std={standard}", *WARNINGS, "-I", installed / "include", "-x", "c", "-"]
    run(words, input="#include <gpumemprof/gpumemprof.h>\n")


def test_shows_the_functions_of_the_listing_and_nothing_else(installed: Path) -> None:
    listed = run(["nm", "-D", "--defined-only", installed / "lib/libgpumemprof.so"]).stdout
    symbols = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert symbols == check_abi.function_names(check_abi.current_listing(ROOT))


def test_has_a_versioned_name(installed: Path) -> None:
    dynamic = run(["readelf", "-d", installed / "lib/libgpumemprof.so"]).stdout
    version = (ROOT / "VERSION").read_text().strip()
    assert f"[libgpumemprof.so.{version.rpartition('.')[0]}]" in dynamic
    assert (installed / f"lib/libgpumemprof.so.{version}").is_file()


@pytest.fixture(scope="session")
def examples(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, built as a user of the installed package would build them."""
    folder = tmp_path_factory.mktemp("examples")
    source = installed / "share/doc/gpumemprof/examples/cpp"
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={installed}"])
    run(["cmake", "--build", folder])
    return folder


def test_the_example_in_c_prints_the_peak(examples: Path) -> None:
    done = run([examples / "peak", DATA / "snapshots/clean_training.pickle.gz"])
    truth = json.loads((DATA / "snapshots/clean_training.json").read_text())["stats"]
    assert done.stdout.startswith(
        f"cuda:0: peak {truth['allocated_bytes.all.peak']} bytes allocated, "
    )


def test_the_example_in_cpp_agrees_with_the_report(examples: Path) -> None:
    done = run([examples / "largest_steps", DATA / "snapshots/gpt2_b4_fp32_adamw.pickle.gz"])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cuda:0: peak ")
    assert any(line.lstrip().startswith("parameters") for line in lines)
    assert any(line.startswith("  step ") for line in lines)
    [largest] = [line for line in lines if "largest at the end" in line]
    assert "/train/case.py:" in largest
    assert lines[-1].startswith("Saves most: ")


@pytest.mark.parametrize("program", ["peak", "largest_steps"])
def test_an_example_ends_with_a_sentence_and_a_code(examples: Path, program: str) -> None:
    done = subprocess.run([examples / program, "missing.gmp"], capture_output=True, text=True)
    assert done.returncode in (3, 4)
    assert done.stderr.startswith("missing.gmp: ")


def test_a_newer_file_is_refused_with_a_sentence(examples: Path, tmp_path: Path) -> None:
    # A header of version 60000, with its checksum.
    header = bytes.fromhex("89 47 4d 50 0d 0a 1a 0a 60 ea 00 00 83 c7 fa 8f")
    recording = header + (DATA / "traces/cpu_training.gmp").read_bytes()[len(header) :]
    (tmp_path / "newer.gmp").write_bytes(recording)
    done = subprocess.run(
        [examples / "peak", tmp_path / "newer.gmp"], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "version 60000" in done.stderr


def test_pkg_config_finds_it(installed: Path, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config")
    asked = run(
        ["pkg-config", "--cflags", "--libs", "gpumemprof"],
        env={"PKG_CONFIG_PATH": str(installed / "lib/pkgconfig"), "PATH": "/usr/bin:/bin"},
    )
    program = tmp_path / "peak"
    run(["gcc", ROOT / "examples/cpp/peak.c", "-o", program, *asked.stdout.split()])
    run(
        [program, DATA / "traces/cpu_training.gmp"],
        env={"LD_LIBRARY_PATH": str(installed / "lib")},
    )


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The Debian packages of the native build, by their names."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("there is no dpkg-deb")
    config = native_build() / "CPackConfig.cmake"
    if not config.exists():
        pytest.skip("there is no native build")
    called_in = tmp_path_factory.mktemp("called_in")
    done = run(["cpack", "--config", config], cwd=called_in)
    assert not list(called_in.iterdir())
    made = [Path(path) for path in re.findall(r"package: (\S+\.deb) generated", done.stdout)]
    return {path.name.partition("_")[0]: path for path in made}


def files_of(package: Path) -> list[str]:
    return [line.split()[5][1:] for line in run(["dpkg-deb", "-c", package]).stdout.splitlines()]


def test_debian_packages_hold_the_library_the_headers_and_the_command(
    packages: dict[str, Path],
) -> None:
    version = (ROOT / "VERSION").read_text().strip()
    library = f"libgpumemprof{version.rpartition('.')[0]}"
    expected = {
        library: [f"/usr/lib/libgpumemprof.so.{version}"],
        "libgpumemprof-dev": [
            "/usr/lib/libgpumemprof.so",
            "/usr/include/gpumemprof/reader.h",
            "/usr/include/gpumemprof/version.h",
            "/usr/share/doc/gpumemprof/examples/libtorch/train.cpp",
            "/usr/lib/cmake/gpumemprof/gpumemprof-config.cmake",
            "/usr/lib/pkgconfig/gpumemprof.pc",
        ],
        "gpumemprof": [
            "/usr/bin/gpumemprof",
            "/usr/share/gpumemprof/viewer.html",
            "/usr/share/man/man1/gpumemprof.1.gz",
            "/usr/share/doc/gpumemprof/docs/cpp.md",
        ],
    }
    assert set(packages) == set(expected)
    found = {name: files_of(package) for name, package in packages.items()}
    for name, files in expected.items():
        own = [*files, *(f"/usr/share/doc/{name}/{each}" for each in ("copyright", "changelog.gz"))]
        for file in own:
            assert [holder for holder in found if file in found[holder]] == [name], file
    # Debian has the text of the license, and wants it in no package.
    assert not [file for files in found.values() for file in files if file.endswith("LICENSE")]
    depends = run(["dpkg-deb", "-f", packages["libgpumemprof-dev"], "Depends"]).stdout
    assert f"{library} (= {version})" in depends
    assert "gpumemprof" not in run(["dpkg-deb", "-f", packages["gpumemprof"], "Depends"]).stdout
