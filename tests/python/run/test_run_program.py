"""Under ``gpumemprof run`` a program behaves as it does under ``python``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import gpumemprof
import pytest

PROBE = '''
"""A program that says all it can find out about itself."""
import atexit, inspect, json, os, pickle, sys, threading, traceback, warnings

count: int = 3


class Mine:
    pass


def text(value):
    return repr(value).split(" at 0x")[0]


def facts():
    main = sys.modules["__main__"]
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv[1:] if hasattr(sys, "orig_argv") else None,
        "path": sys.path,
        "flags": text(sys.flags),
        "names": sorted(vars(main)),
        "file": __file__,
        "name": __name__,
        "package": __package__,
        "doc": __doc__,
        "spec": text(__spec__),
        "loader": text(__loader__),
        "cached": globals().get("__cached__"),
        "builtins": text(__builtins__),
        "annotations": text(__annotations__),
        "is_main": main.__dict__ is globals(),
        "source": inspect.getsource(Mine),
        "depth": depth,
        "outermost": frame.f_code.co_filename,
        "stack": traceback.format_stack(),
        "sitecustomize": text(sys.modules.get("sitecustomize")),
        "usercustomize": text(sys.modules.get("usercustomize")),
        "excepthook": text(sys.excepthook),
        "meta_path": [type(f).__name__ for f in sys.meta_path if "Torch" not in type(f).__name__],
        "pickle": len(pickle.dumps(Mine())),
    }


def late():
    os.chdir("/")
    assert os.path.exists(__file__) or ".zip" in __file__
    print(json.dumps(facts()), type(pickle.loads(pickle.dumps(Mine()))) is Mine, flush=True)


if __name__ == "__main__":
    print(json.dumps(facts()))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.warn("mine", stacklevel=2)
    print(found[0].filename, found[0].lineno)
    atexit.register(late)
    thread = threading.Thread(target=lambda: pickle.dumps(Mine()))
    thread.start()
    if sys.argv[-1] == "fails":
        def inner(): raise ValueError("mine")
        try:
            inner()
        except ValueError as error:
            raise KeyError("also mine") from error
    if sys.argv[-1] == "syntax": compile("a b", "mine.py", "exec")
    if sys.argv[-1] == "sentence": sys.exit("a sentence")
    sys.exit(7)
'''


def run(
    folder: Path, words: list[str], environment: dict[str, str] | None = None
) -> tuple[int, str, list[str]]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = re.sub("0x[0-9a-f]+", "0x", done.stderr).splitlines()
    its_own = [line for line in lines if not line.startswith("gpumemprof: ")]
    return done.returncode, done.stdout, its_own


def write(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "train.py").write_text(PROBE)
    (folder / "sub" / "beside.py").write_text("")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "__main__.py").write_text(PROBE)
    (folder / "package" / "part.py").write_text(PROBE)
    (folder / "link.py").symlink_to("sub/train.py")
    (folder / "folder").mkdir()
    (folder / "folder" / "__main__.py").write_text(PROBE)
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", PROBE)


PROGRAMS = [
    ["sub/train.py", "--lr", "1"],
    ["./sub/../sub/train.py"],
    ["{folder}/sub/train.py", "fails"],
    ["sub/train.py", "fails"],
    ["sub/train.py", "syntax"],
    ["sub/train.py", "sentence"],
    ["link.py"],
    ["folder"],
    ["app.zip"],
    ["-m", "package"],
    ["-m", "package.part", "-m", "x", "fails"],
    ["-m", "sub.train"],
    ["-m", "no_such_module"],
]


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_the_program_is_the_same(tmp_path: Path, program: list[str]) -> None:
    write(tmp_path)
    words = [word.replace("{folder}", str(tmp_path)) for word in program]
    plain = run(tmp_path, words)
    recorded = run(tmp_path, ["-m", "gpumemprof", "run", "--cpu", *words])
    for one, other in zip(plain[1].splitlines(), recorded[1].splitlines()):
        if one.startswith("{") and one.endswith("}"):
            assert json.loads(other) == json.loads(one)
    assert recorded == plain
    assert list(tmp_path.glob("*.gmp")) == []


@pytest.mark.parametrize("flags", [["-O"], ["-W", "error", "-X", "utf8"], ["-u", "-B"], ["-s"]])
def test_flags_of_python_reach_the_program(tmp_path: Path, flags: list[str]) -> None:
    write(tmp_path)
    plain = run(tmp_path, [*flags, "sub/train.py"])
    recorded = run(tmp_path, [*flags, "-m", "gpumemprof", "run", "--cpu", "sub/train.py"])
    assert recorded == plain


def test_the_users_own_sitecustomize_runs(tmp_path: Path) -> None:
    write(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine', __file__, __name__)\n")
    environment = {"PYTHONPATH": f"{own}{os.pathsep}"}
    plain = run(tmp_path, ["sub/train.py"], environment)
    assert plain[1].startswith("mine")
    recorded = run(tmp_path, ["-m", "gpumemprof", "run", "--cpu", "sub/train.py"], environment)
    # Python was started twice, once for the command.
    assert recorded[1] == plain[1].splitlines(keepends=True)[0] + plain[1]
    (own / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    plain = run(tmp_path, ["sub/train.py"], environment)
    recorded = run(tmp_path, ["-m", "gpumemprof", "run", "--cpu", "sub/train.py"], environment)
    assert recorded[1] == plain[1]
    assert recorded[2] == plain[2] * 2


def test_the_environment_is_left_alone_without_children(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print(sorted(os.environ.items()))")
    for environment in ({}, {"PYTHONPATH": str(tmp_path)}):
        plain = run(tmp_path, ["train.py"], environment)
        words = ["-m", "gpumemprof", "run", "--no-children", "train.py"]
        assert run(tmp_path, words, environment) == plain


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_a_python_that_cannot_be_recorded_is_said_before(tmp_path: Path, flag: str) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    site = str(Path(sys.prefix) / "lib" / "site-packages")
    done = subprocess.run(
        [sys.executable, flag, "-m", "gpumemprof", "run", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": site if flag == "-S" else ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if flag == "-S":
        assert "ran" not in done.stdout
        return
    assert (done.returncode, done.stdout) == (2, "")
    assert "-I, -E or -S" in done.stderr


def test_code_on_the_command_line_runs_as_under_python(tmp_path: Path) -> None:
    code = "import json, sys, torch; torch.ones(9); print(json.dumps([sys.argv, sys.path[0]]))"
    words = ["-c", code, "a", "-c", "--token=secret"]

    def run(*before: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *before, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    plain, recorded = run(), run("-m", "gpumemprof", "run")
    assert recorded.stdout == plain.stdout
    (path,) = tmp_path.glob("*.gmp")
    assert path.name.startswith("python.")
    facts = gpumemprof.load(path).report()["input"]["facts"]
    assert facts["command"] == "python -c -c --token"
    assert "ones(9)" not in json.dumps(facts)


def test_a_program_on_standard_input_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpumemprof", "run", "-"]
    done = subprocess.run(command, cwd=tmp_path, input="1", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "gpumemprof: run cannot record a program that Python reads from its input; pass it with "
        "-c; see gpumemprof run --help\n"
    )
