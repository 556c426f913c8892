"""vLLM's plugin, loaded as vLLM loads it, by a stand-in for the package, which cannot be installed.

The stand-in has vLLM's loader of plugins and a worker with the methods that vLLM's engine calls.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import gpumemprof
import pytest
from check_docs import parse_blocks
from doc_pages import ROOT
from programs import environment

FILES = {
    "vllm/__init__.py": "",
    "vllm/plugins/__init__.py": """
        from importlib.metadata import entry_points
        is_loaded = False
        def load_general_plugins():
            global is_loaded
            if is_loaded: return
            is_loaded = True
            for plugin in entry_points(group="vllm.general_plugins"):
                plugin.load()()
    """,
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/worker_base.py": """
        class WorkerBase:
            def compile_or_warm_up_model(self): raise NotImplementedError
    """,
    "vllm/v1/worker/gpu_worker.py": """
        import torch
        from vllm.v1.worker.worker_base import WorkerBase
        class Worker(WorkerBase):
            def init_device(self): self.communicator = torch.zeros(100)
            def load_model(self, name, dummy=False): self.weights = torch.zeros(1000); return name
            def determine_available_memory(self): return torch.zeros(5000).numel()
            def initialize_from_config(self, config): self.cache = torch.zeros(2000)
            def compile_or_warm_up_model(self): self.graph = torch.zeros(300)
    """,
    "serve.py": """
        import sys
        import vllm.plugins
        vllm.plugins.load_general_plugins()
        if "early" in sys.argv: vllm.plugins.is_loaded = False
        assert "torch" not in sys.modules
        from vllm.v1.worker.gpu_worker import Worker
        vllm.plugins.load_general_plugins()
        worker = Worker()
        worker.init_device()
        assert worker.load_model("m", dummy=True) == "m"
        assert worker.determine_available_memory() == 5000
        worker.initialize_from_config(None)
        worker.compile_or_warm_up_model()
        print("gpumemprof" in sys.modules, Worker.load_model.__name__)
    """,
}
PARTS = ["communicators", "weights", "profiling run", "kv cache", "graphs"]


def serve(folder: Path, *words: str, **variables: str) -> str:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "serve.py", *words],
        cwd=folder,
        env={**environment(folder), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [(), ("early",)], ids=["once", "twice"])
def test_the_parts_of_a_server_are_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    said = serve(tmp_path, *words, GPUMEMPROF="1", GPUMEMPROF_OUTPUT="serve.gmp")
    assert said == "True load_model\n"
    (path,) = tmp_path.glob("serve*.gmp")
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
    events = gpumemprof.load(path).events.to_pandas()
    made = events[events.action == "alloc"]
    tagged = made.groupby("user_metadata").size_bytes.sum().to_dict()
    assert tagged == dict(zip(PARTS, (400, 4000, 20000, 8000, 1200)))


def test_a_server_that_is_not_recorded_imports_nothing(tmp_path: Path) -> None:
    assert serve(tmp_path) == "False load_model\n"
    assert not list(tmp_path.glob("*.gmp"))


SGLANG = {
    "sglang/__init__.py": "",
    "sglang/launch_server.py": """
        from sglang.srt.model_executor.model_runner import ModelRunner
        def run_server(settings):
            runner = ModelRunner()
            runner.load_model()
            runner.init_memory_pool()
            print(settings)
    """,
    "sglang/srt/__init__.py": "",
    "sglang/srt/model_executor/__init__.py": "",
    "sglang/srt/model_executor/model_runner.py": """
        import torch
        class ModelRunner:
            def load_model(self): self.weights = torch.zeros(1000)
            def init_memory_pool(self): self.pool = torch.zeros(2000)
    """,
    "sglang/srt/server_args.py": "def prepare_server_args(words): return ' '.join(words)",
}


def test_the_launcher_of_the_page_names_the_weights(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "integrations" / "serving.md").read_text()
    (launcher,) = (block for block in parse_blocks(page) if block.language == "python")
    for name, text in SGLANG.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    (tmp_path / "launch.py").write_text("\n".join(launcher.lines))
    variables = {"GPUMEMPROF": "1", "GPUMEMPROF_OUTPUT": "serve.gmp"}
    done = subprocess.run(
        [sys.executable, "launch.py", "--model-path", "MODEL"],
        cwd=tmp_path,
        env={**environment(tmp_path), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("--model-path MODEL")
    (path,) = tmp_path.glob("serve*.gmp")
    events = gpumemprof.load(path).events.to_pandas()
    made = events[events.action == "alloc"]
    assert made.groupby("user_metadata").size_bytes.sum().to_dict() == {"weights": 4000}
    assert made[made.size_bytes == 8000].user_metadata.isna().all()
