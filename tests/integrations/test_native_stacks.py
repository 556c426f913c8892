"""C++ frames: programs without Python that record themselves, and extensions below Python."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("GPUMEMPROF_NATIVE_BUILD", "build/test")
SOURCES = Path(__file__).resolve().parent / "native_stacks"
LIBRARIES = Path(torch.__file__).parent / "lib"


def run(*words: object, **options: Any) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def line_of(source: str, mark: str) -> int:
    """The number of the line that a source marks with a comment."""
    lines = (SOURCES / source).read_text().splitlines()
    [number] = [row for row, line in enumerate(lines, 1) if line.endswith(f"// line: {mark}")]
    return number


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native package, installed."""
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def built(prefix: Path, folder: Path, *flags: str, c10: Path = LIBRARIES / "libc10.so") -> Path:
    program = folder / "program"
    run(
        *("g++", "-std=c++17", "-O2", *flags, SOURCES / "program.cpp", "-o", program),
        *("-I", prefix / "include", "-L", prefix / "lib", "-lgpumemprof", c10, "-pthread"),
        *(f"-Wl,-rpath,{prefix / 'lib'}:{c10.parent}", "-Wl,--no-as-needed"),
    )
    return program


def groups(prefix: Path, recording: Path, **options: Any) -> dict[int, list[dict[str, Any]]]:
    """The stacks of what is live at the peak, innermost frame first, by bytes."""
    text = run(prefix / "bin/gpumemprof", "report", recording, "--json", **options)
    [device] = json.loads(text)["devices"]
    return {group["bytes"]: group["stack"] for group in device["live_at_peak"]}


def places(stack: list[dict[str, Any]], file: str) -> list[tuple[str, int]]:
    return [(each["name"], each["line"]) for each in stack if each["file"].endswith(file)]


def test_a_program_without_python_shows_its_lines(prefix: Path, tmp_path: Path) -> None:
    program = built(prefix, tmp_path, "-g")
    run(program, tmp_path / "run.gmp")
    found = groups(prefix, tmp_path / "run.gmp")
    own = places(found[1 << 20], "program.cpp")
    assert own[0] == ("own::Network::forward(unsigned long)", line_of("program.cpp", "forward"))
    # The compiler inlined the template and the lambda.
    assert [line for _, line in own[1:3]] == [
        line_of("program.cpp", mark) for mark in ("lambda", "called")
    ]
    assert own[-1][0] == "main"
    # Nothing of what started the program, and nothing of the recorder.
    assert found[1 << 20][-1]["name"] == "main"
    assert not any("gpumemprof" in frame["file"] for frame in found[1 << 20])
    thread = places(found[1 << 18], "program.cpp")
    assert ("own::Network::forward(unsigned long)", line_of("program.cpp", "forward")) in thread
    assert line_of("program.cpp", "thread") in [line for _, line in thread]
    text = run(prefix / "bin/gpumemprof", "report", tmp_path / "run.gmp")
    assert f"program.cpp:{line_of('program.cpp', 'forward')}" in text


def test_stacks_can_be_switched_off(prefix: Path, tmp_path: Path) -> None:
    program = built(prefix, tmp_path, "-g")
    run(program, tmp_path / "run.gmp", "without")
    text = run(prefix / "bin/gpumemprof", "report", tmp_path / "run.gmp", "--json")
    [device] = json.loads(text)["devices"]
    assert all(group["stack"] == [] for group in device["live_at_peak"])


def test_a_stripped_program_shows_addresses_and_says_why(prefix: Path, tmp_path: Path) -> None:
    program = built(prefix, tmp_path, "-s")
    run(program, tmp_path / "run.gmp")
    own = places(groups(prefix, tmp_path / "run.gmp")[1 << 20], "/program")
    assert own
    assert all(name.startswith("program+0x") and line == 0 for name, line in own)
    text = run(prefix / "bin/gpumemprof", "report", tmp_path / "run.gmp")
    assert "is stripped of its symbols" in text.replace("\n", " ")


def test_a_program_built_anew_is_not_trusted(prefix: Path, tmp_path: Path) -> None:
    run(built(prefix, tmp_path, "-g"), tmp_path / "run.gmp")
    built(prefix, tmp_path, "-g", "-O1")
    own = places(groups(prefix, tmp_path / "run.gmp")[1 << 20], "/program")
    assert all(name.startswith("program+0x") for name, _ in own)
    text = run(prefix / "bin/gpumemprof", "report", tmp_path / "run.gmp").replace("\n", " ")
    assert "is not the build that was recorded" in text


def test_without_libdw_frames_have_names_and_a_sentence_says_how_to_get_lines(
    prefix: Path, tmp_path: Path
) -> None:
    run(built(prefix, tmp_path, "-g"), tmp_path / "run.gmp")
    without = {**os.environ, "GPUMEMPROF_NO_LIBDW": "1"}
    own = places(groups(prefix, tmp_path / "run.gmp", env=without)[1 << 20], "/program")
    # The table of symbols also says that the compiler made a variant of it: " [clone .isra.0]".
    assert own[0][0].split(" [clone")[0] == "own::Network::forward(unsigned long)"
    assert own[0][1] == 0
    text = run(prefix / "bin/gpumemprof", "report", tmp_path / "run.gmp", env=without)
    assert "install the package libdw1" in text.replace("\n", " ")


def test_a_converted_recording_keeps_its_lines(prefix: Path, tmp_path: Path) -> None:
    program = built(prefix, tmp_path, "-g")
    run(program, tmp_path / "run.gmp")
    command = prefix / "bin/gpumemprof"
    run(command, "convert", tmp_path / "run.gmp", "--to", "gmp", tmp_path / "lines.gmp")
    before = groups(prefix, tmp_path / "run.gmp")
    program.unlink()
    assert groups(prefix, tmp_path / "lines.gmp") == before


def test_an_unknown_libtorch_is_refused_and_the_program_runs_on(
    prefix: Path, tmp_path: Path
) -> None:
    c10 = tmp_path / "libc10.so"
    run("g++", "-shared", "-fPIC", SOURCES / "other_c10.cpp", "-o", c10, "-Wl,-soname,libc10.so")
    program = built(prefix, tmp_path, "-g", c10=c10)
    done = subprocess.run([program, tmp_path / "run.gmp"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ran to its end\n")
    [sentence] = done.stderr.splitlines()
    assert "does not allocate CPU tensors with posix_memalign" in sentence
    assert not (tmp_path / "run.gmp").exists()


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extension") / "extension.so"
    run(
        *("g++", "-g", "-O2", "-shared", "-fPIC", SOURCES / "extension.cpp", "-o", path),
        *(LIBRARIES / "libc10.so", f"-Wl,-rpath,{LIBRARIES}"),
    )
    return path


def use_extension(path: Path) -> None:
    library = ctypes.CDLL(str(path))
    library.own_operator.restype = ctypes.c_void_p
    memory = library.own_operator(ctypes.c_size_t(1 << 20))
    library.release(ctypes.c_void_p(memory))


def live_at_peak(path: Path) -> list[dict[str, Any]]:
    [device] = gpumemprof.load(path).report()["devices"]
    return max(device["live_at_peak"], key=lambda group: group["bytes"])["stack"]


def test_frames_of_an_extension_are_below_those_of_python(tmp_path: Path, extension: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True, native_stacks=True):
        use_extension(extension)
    stack = live_at_peak(tmp_path / "run.gmp")
    own = places(stack, "extension.cpp")
    assert [line for _, line in own] == [
        line_of("extension.cpp", mark) for mark in ("scratch", "operator")
    ]
    names = [frame["name"] for frame in stack]
    assert names.index("use_extension") > names.index(own[-1][0])
    assert not any("PyEval" in name or "PyObject" in name for name in names)
    # Without it, the stack is Python's alone.
    with gpumemprof.record(tmp_path / "python.gmp", cpu=True):
        use_extension(extension)
    python = live_at_peak(tmp_path / "python.gmp")
    assert python[0]["name"] == "use_extension"
    assert [frame for frame in stack if frame["file"].endswith(".py")] == [
        frame | {"line": mine["line"]}
        for frame, mine in zip(python, (f for f in stack if f["file"].endswith(".py")))
    ]


def test_run_records_them_with_native_stacks(tmp_path: Path, extension: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import ctypes, torch\n"
        f"library = ctypes.CDLL({str(extension)!r})\n"
        "library.own_operator.restype = ctypes.c_void_p\n"
        "memory = library.own_operator(ctypes.c_size_t(1 << 20))\n"
        "library.release(ctypes.c_void_p(memory))\n"
    )
    command = [sys.executable, "-m", "gpumemprof", "run", "--native-stacks", "--cpu", "-o"]
    run(*command, tmp_path / "run.gmp", script, cwd=tmp_path)
    stack = live_at_peak(tmp_path / "run.gmp")
    assert places(stack, "extension.cpp")
    assert stack[-1]["file"].endswith("script.py")
