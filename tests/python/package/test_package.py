"""The package as Python users see it: documented, typed, and with examples that run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import typing
from pathlib import Path

import gpumemprof
import pytest

PUBLIC = [name for name in gpumemprof.__all__ if name != "__version__"]


def members_of(value):
    """The public functions and properties of a class or function."""
    if not inspect.isclass(value):
        return [value]
    ours = [base for base in value.__mro__ if base.__module__.startswith("gpumemprof")]
    own = [
        member for base in ours for name, member in vars(base).items() if not name.startswith("_")
    ]
    return [
        getattr(member, "fget", None) or getattr(member, "func", None) or member
        for member in own
        if callable(member) or isinstance(member, property) or hasattr(member, "func")
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name):
    value = getattr(gpumemprof, name)
    assert inspect.getdoc(value)
    for member in members_of(value):
        assert inspect.getdoc(member), member


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - {"Table"}))
def test_every_public_function_has_type_hints(name):
    value = getattr(gpumemprof, name)
    functions = [member for member in members_of(value) if inspect.isfunction(member)]
    for function in functions:
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, function
        arguments = [p for p in signature.parameters if p not in {"self", "cls"}]
        assert set(arguments) <= set(typing.get_type_hints(function)), function


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    assert has_example(getattr(gpumemprof, name)), name


PROFILER_API = [
    "Allocation",
    "CPUMemoryProfiler",
    "GPUMemoryProfiler",
    "MemorySnapshot",
    "OwnAllocations",
    "ProfileResult",
    "ProfiledContext",
]


@pytest.mark.parametrize("name", PROFILER_API)
def test_every_method_of_the_profiler_has_an_example(name):
    kind = getattr(gpumemprof, name)
    for base in kind.__mro__[:-1]:
        for member in members_of(base):
            if inspect.isfunction(member):
                assert has_example(member), member


def has_example(value):
    text = inspect.getdoc(value) or ""
    return ">>> " in text or "::" in text


def test_the_examples_of_all_modules_run():
    for module in pkgutil.walk_packages(gpumemprof.__path__, "gpumemprof."):
        if module.name.rpartition(".")[2] in {"_core", "__main__"}:
            continue
        failures, _ = doctest.testmod(importlib.import_module(module.name))
        assert failures == 0, module.name


def test_every_public_name_comes_with_its_type():
    api = pytest.importorskip("mypy.api")
    program = f"from gpumemprof import {', '.join(PUBLIC)}\n"
    program += "".join(f"reveal_type({name})\n" for name in PUBLIC)
    options = ["--strict", "--follow-imports=silent", "--ignore-missing-imports"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", str(Path(gpumemprof.__file__).parents[1]))
        told, problems, code = api.run([*options, "--config-file=", "-c", program])
    assert code == 0, told + problems
    revealed = [line for line in told.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(PUBLIC)
    assert not [line for line in revealed if '"Any"' in line or '"builtins.object"' in line]


NAMES = """
    ActiveRecording Alert Allocation CPUMemoryProfiler Counters CutFileWarning DeviceReport
    DeviceSources End EnvironmentProblem Error Estimate Expectation Frame GPUMemoryProfiler
    InputError InternalError Label Leak LeakWarning LeakWatch LiveGroup MemorySnapshot MemoryTracker
    MissingFileError Module NoCudaError OwnAllocations Peak Phase ProfileResult ProfiledContext
    Recording RecordingWarning SourceFigure Step Summary Table UsageError __version__
    default_profiler demo_path estimate estimating expect_freed load profile_context
    profile_function record start step stop tag watch_leaks
"""


def test_no_public_name_came_or_went():
    assert gpumemprof.__all__ == NAMES.split()


def test_the_module_of_errors_has_public_names():
    for public in gpumemprof.errors.__all__:
        assert getattr(gpumemprof.errors, public) is getattr(gpumemprof, public)


def test_folders_of_the_package_do_not_hide_public_names():
    for module in pkgutil.walk_packages(gpumemprof.__path__, "gpumemprof."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert inspect.isclass(gpumemprof.record)
    modules = [name for name in PUBLIC if inspect.ismodule(getattr(gpumemprof, name))]
    assert modules == ["estimate"]
    assert callable(gpumemprof.estimate)


def test_says_nothing_it_does_not_have():
    assert sorted(gpumemprof.__all__) == gpumemprof.__all__
    assert dir(gpumemprof) == gpumemprof.__all__
    assert gpumemprof.__version__.count(".") == 2
    assert gpumemprof.__doc__


def test_the_examples_run():
    failures, examples = doctest.testmod(gpumemprof)
    assert (failures, examples > 3) == (0, True)


def test_tables_describe_each_of_their_columns():
    recording = gpumemprof.load(gpumemprof.demo_path())
    for name in ["events", "allocations", "segments", "stacks", "frames"]:
        text = inspect.getdoc(getattr(gpumemprof.Recording, name)) or ""
        for column in getattr(recording, name).column_names:
            assert f"\n``{column}``" in text, f"{name}.{column}"


def test_bugs_ask_to_be_reported():
    from gpumemprof.errors import from_native

    bug = from_native("internal check failed at a.cpp:1: x", "bug", "", "")
    assert isinstance(bug, gpumemprof.InternalError)
    assert isinstance(bug, RuntimeError)
    assert "please report it" in str(bug)
    assert isinstance(from_native("no room", "environment", "", ""), gpumemprof.EnvironmentProblem)


def test_another_distribution_of_the_same_name_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "gpu_memory_profiler-0.2.3.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: gpu-memory-profiler\nVersion: 0.2.3\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    refused = python("-m", "gpumemprof", "--version")
    assert refused.returncode == 4
    assert "run: pip uninstall gpu-memory-profiler" in refused.stderr
    read = python("-c", "import gpumemprof; gpumemprof.load(gpumemprof.demo_path())")
    assert read.returncode == 0, read.stderr
    started = python("-c", "import gpumemprof; gpumemprof.start('x.gmp', cpu=True)")
    assert "EnvironmentProblem" in started.stderr
