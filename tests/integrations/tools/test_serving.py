"""Servers that load us as vLLM and SGLang do, by stand-ins for the packages.

Neither can be installed here. The stand-ins (tests/integrations/stand_ins) have vLLM's loader of
plugins, the commands and processes of both, and the methods that their engines call.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import gpumemprof
import pandas
import pytest
from doc_pages import ROOT, run_page
from programs import environment

STAND_INS = ROOT / "tests" / "integrations" / "stand_ins"
PARTS = ["communicators", "weights", "profiling run", "kv cache", "graphs"]
WEIGHTS = 4 * (1000 * 1000 + 1000)
RECORDED = {"GPUMEMPROF": "1", "GPUMEMPROF_OUTPUT": "serve.gmp"}


def command_of_vllm(folder: Path) -> Path:
    """The command that vLLM installs, in a folder of its own."""
    command = folder / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\n"
        "from vllm.entrypoints.cli.main import main\n"
        "if __name__ == '__main__':\n"
        "    main()\n"
    )
    command.chmod(0o755)
    return command


def variables_of(folder: Path, **more: str) -> dict[str, str]:
    return {**environment(folder), "PYTHONPATH": str(STAND_INS), **more}


def serve(folder: Path, words: list[str], ready: str, **more: str) -> str:
    """Start a server, wait until it says that it is ready, interrupt it; what it printed."""
    server = subprocess.Popen(
        words,
        cwd=folder,
        env=variables_of(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    said = []
    for line in server.stdout:
        said.append(line)
        if ready in line:
            server.send_signal(signal.SIGINT)
    assert server.wait(timeout=120) == 0, said
    return "".join(said)


def allocations(folder: Path) -> tuple[Path, pandas.DataFrame]:
    """The one recording with tags, and what was allocated in it."""
    found = []
    for path in folder.glob("serve*.gmp"):
        events = gpumemprof.load(path).events.to_pandas()
        made = events[events.action == "alloc"]
        if made.user_metadata.notna().any():
            found.append((path, made))
    (one,) = found
    return one


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_parts_of_vllm_are_named(tmp_path: Path, method: str) -> None:
    words = [str(command_of_vllm(tmp_path)), "serve", "MODEL"]
    serve(tmp_path, words, "startup complete", VLLM_WORKER_MULTIPROC_METHOD=method, **RECORDED)
    path, made = allocations(tmp_path)
    tagged = made.groupby("user_metadata").size_bytes.sum().to_dict()
    assert set(tagged) == set(PARTS)
    assert tagged["profiling run"] >= 2 * 4 * 64 * 1000
    del tagged["profiling run"]
    assert tagged == {
        "communicators": 400,
        "weights": WEIGHTS,
        "kv cache": 8_000_000,
        "graphs": 1200,
    }
    snapshot = tmp_path / "snapshot.pickle"
    convert = ["convert", "--to", "torch-snapshot", str(path), str(snapshot)]
    subprocess.run([sys.executable, "-m", "gpumemprof", *convert], check=True, capture_output=True)
    # Runs of the garbage collector are marked too.
    marks = [
        mark
        for mark in pickle.loads(snapshot.read_bytes())["external_annotations"]
        if mark["name"] in PARTS
    ]
    assert [mark["name"] for mark in marks if mark["stage"] == "START"] == PARTS
    assert [mark["name"] for mark in marks if mark["stage"] == "END"] == PARTS


def test_a_worker_that_is_imported_before_the_plugin_is_named_too(tmp_path: Path) -> None:
    program = (
        "from vllm.v1.worker.gpu_worker import Worker\n"
        "from vllm.plugins import load_general_plugins\n"
        "load_general_plugins()\n"
        "worker = Worker()\n"
        "assert worker.load_model('m') == 'm'\n"
        "print(Worker.load_model.__name__)\n"
    )
    (tmp_path / "serve.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "serve.py"],
        cwd=tmp_path,
        env=variables_of(tmp_path, **RECORDED),
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[:1] == ["load_model"], done.stderr
    _, made = allocations(tmp_path)
    assert made.groupby("user_metadata").size_bytes.sum().to_dict() == {"weights": WEIGHTS}


def test_a_server_that_is_not_recorded_imports_nothing(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from vllm.plugins import load_general_plugins\n"
        "load_general_plugins()\n"
        "from vllm.v1.worker.gpu_worker import Worker\n"
        "Worker().load_model('m')\n"
        "print('gpumemprof' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=variables_of(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False\n", done.stderr
    assert not list(tmp_path.glob("*.gmp"))


def test_sglang_is_recorded_without_a_launcher(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "MODEL"]
    serve(tmp_path, words, "ready to roll", **RECORDED)
    sizes = [
        gpumemprof.load(path).devices[0].peak.allocated_bytes
        for path in tmp_path.glob("serve*.gmp")
        if gpumemprof.load(path).devices
    ]
    assert max(sizes) >= WEIGHTS + 8_000_000


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "integrations" / "serving.md"
    path = os.pathsep.join([str(command_of_vllm(tmp_path).parent), os.environ["PATH"]])
    python = str(Path(sys.executable).parent)
    assert run_page(page, tmp_path, PYTHONPATH=str(STAND_INS), PATH=f"{python}:{path}") == 6
