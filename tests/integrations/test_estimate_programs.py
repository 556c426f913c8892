"""Whole programs, predicted by the command on a machine without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest

TRAINING = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=1000)
options = parser.parse_args()

def block():
    return torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
    )

model = torch.nn.Sequential(*(block() for _ in range(4))).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(options.steps):
    print("step", step, flush=True)
    x = torch.randn(options.batch_size, 1024, device="cuda")
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PARAMETER_BYTES = 4 * 4 * (2 * 1024 * 4096 + 4096 + 1024)


def estimate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", "estimate", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.fixture
def training(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    return tmp_path


def test_steps_are_counted_where_the_program_runs_to_its_end(training: Path) -> None:
    done = estimate(training, "--json", "--steps", "all", "train.py", "--steps", "4")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ended"], found["optimizer_steps"]) == ("exit", 4)


def test_a_training_program_is_predicted_after_three_steps(training: Path) -> None:
    done = estimate(training, "--json", "-o", "est.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["provenance"] == "predicted"
    assert found["verdict"]["answer"] == "fits"
    assert (found["ended"], found["optimizer_steps"]) == ("steps", 3)
    sources = found["devices"][0]["sources"]
    assert sources["parameters"]["bytes_max"] == PARAMETER_BYTES
    assert sources["gradients"]["bytes_max"] == PARAMETER_BYTES
    # Two moments, and a step counter of each of the 16 parameters on the host.
    assert sources["optimizer_state"]["bytes_max"] == 2 * PARAMETER_BYTES
    assert found["verdict"]["peak_allocated_bytes"] > 4 * PARAMETER_BYTES
    # The program's own output is not part of the answer, and it made no fourth step.
    assert [line for line in done.stderr.splitlines() if line.startswith("step")] == [
        "step 0",
        "step 1",
        "step 2",
    ]
    assert "Traceback" not in done.stderr
    assert set(found["devices"][0]["provenance"].values()) == {"predicted"}
    kept = gpumemprof.load(training / "est.gmp")
    assert "predicted run" in str(kept).splitlines()[0]
    assert kept.devices[0].peak.allocated_bytes == found["verdict"]["peak_allocated_bytes"]


def test_the_answer_starts_with_the_verdict(training: Path) -> None:
    done = estimate(training, "--gpu", "t4", "--steps", "1", "train.py", "--batch-size", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The first steps of train.py fit a T4: peak ")
    assert "It was stopped after 1 optimizer step, as --steps says" in " ".join(done.stdout.split())
    assert "train.py:15" in done.stdout
    assert "-o FILE.gmp" in done.stdout.splitlines()[-1]
    assert sorted(path.name for path in training.iterdir()) == ["train.py"]


def test_a_program_that_does_not_fit_names_its_line_and_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(
        "import torch\n"
        "first = torch.empty(8 << 30, dtype=torch.uint8, device='cuda')\n"
        "second = torch.empty(9 << 30, dtype=torch.uint8, device='cuda')\n"
        "third = torch.empty(10 << 30, dtype=torch.uint8, device='cuda')\n"
    )
    done = estimate(tmp_path, "--gpu", "t4", "big.py")
    assert done.returncode == 1, done.stderr
    # 27 GiB are needed, 14.4 GiB are free.
    assert done.stdout.startswith("big.py does not fit a T4: at big.py:3, short by 12.6 GiB\n")
    assert "The whole run needs 27.0 GiB." in done.stdout


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            "import torch\nx = torch.ones(3)\nraise ValueError('no data')\n",
            "a.py:3: ValueError: no data",
        ),
        ("import torch\nx = torch.ones(3)\n", "a.py used no GPU memory"),
        ("print('hello')\n", "a.py used no GPU memory"),
        ("import sys\nsys.exit(7)\n", "a.py:2: the program ended with exit code 7"),
        (
            "raise OSError(\"We couldn't connect to 'https://huggingface.co' to load it\")\n",
            "download what it needs first",
        ),
    ],
)
def test_what_cannot_be_predicted_ends_in_one_sentence(
    tmp_path: Path, program: str, sentence: str
) -> None:
    (tmp_path / "a.py").write_text(program)
    done = estimate(tmp_path, "a.py")
    assert done.returncode == 3
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("gpumemprof: ")
    assert sentence in last


def test_a_program_that_does_not_end_is_stopped_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(
        "import torch\nx = torch.zeros(1 << 28, device='cuda')\nwhile True:\n    y = x + 1\n"
    )
    done = estimate(tmp_path, "--limit", "8", "loop.py")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("loop.py may not fit ")
    assert "It was stopped after 8 s" in done.stdout.replace("\n  ", " ")
    # The old y lives until the new one is computed.
    assert "peak 3.00 GiB allocated" in done.stdout


def test_a_program_that_takes_all_it_can_get_ends_with_the_verdict(tmp_path: Path) -> None:
    # What it would need in all is looked for on a card without a limit, where it takes ever more.
    (tmp_path / "all.py").write_text(
        "import torch\n"
        "kept = []\n"
        "while True:\n"
        "    kept.append(torch.empty(1 << 30, dtype=torch.uint8, device='cuda'))\n"
    )
    done = estimate(tmp_path, "--gpu", "l4", "all.py")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("all.py does not fit an L4: at all.py:4, short by at least ")


def test_a_sweep_takes_the_programs_own_flag(training: Path) -> None:
    words = ["--gpu", "t4", "--steps", "1", "--sweep", "batch=8,131072", "train.py"]
    done = estimate(training, *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("train.py fits a T4 with up to --batch-size 8: ")
    assert lines[2].split() == ["batch-size", "allocated", "reserved"]
    assert lines[3].endswith("fits")
    assert "short by" in lines[4]
    assert "step 0" not in done.stdout + done.stderr


def test_a_flag_that_the_program_does_not_take_is_a_sentence(training: Path) -> None:
    done = estimate(training, "--sweep", "width=1,2", "train.py")
    assert done.returncode == 2
    assert "unrecognized arguments: --width 1" in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "gpumemprof: train.py does not take --width 1 (see its message above); "
        "python train.py --help shows the flags it has"
    )


def test_advice_is_proven_by_a_second_prediction(training: Path) -> None:
    whole = estimate(training, "--json", "--steps", "2", "train.py", "--batch-size", "16384")
    needed = json.loads(whole.stdout)["verdict"]["needed_bytes"]
    limit = f"{int(needed * 0.8) >> 20}MiB"
    words = ["--json", "--steps", "2", "--fit", limit, "train.py", "--batch-size", "16384"]
    done = estimate(training, *words)
    found = json.loads(done.stdout)["fit"]
    assert found["as_it_is"]["answer"] == "does not fit"
    assert found["remedies"], found
    assert found["problem"] is None, found
    assert found["predicted"]["verdict"]["answer"] == "fits"
    assert found["predicted"]["verdict"]["needed_bytes"] < needed * 0.8
    assert done.returncode == 0


def test_a_block_of_a_notebook_is_predicted(tmp_path: Path) -> None:
    (tmp_path / "cells.py").write_text(
        "import gpumemprof, torch\n"
        "with gpumemprof.estimating(gpu='t4') as result:\n"
        "    x = torch.zeros(1 << 28, device='cuda')\n"
        "assert result.fits and result.peak_allocated_bytes == 1 << 30, result\n"
        "with gpumemprof.estimating(gpu='t4') as result:\n"
        "    x = torch.zeros(1 << 34, device='cuda')\n"
        "    assert False, 'the block ends where the card is full'\n"
        "assert not result.fits\n"
        "model = torch.nn.Linear(1024, 1024)\n"
        "weight = model.weight.detach().clone()\n"
        "def step(model):\n"
        "    model(torch.ones(8, 1024, device='cuda')).sum().backward()\n"
        "result = gpumemprof.estimate(step, model=model, gpu='l4')\n"
        "assert result.peak_allocated_bytes > 8 << 20\n"
        "assert model.weight.device.type == 'cpu' and torch.equal(model.weight, weight)\n"
        "print(repr(result))\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "def train(model, optimizer):\n"
        "    step(model)\n"
        "    optimizer.step()\n"
        "def train_original(model):\n"
        "    step(model)\n"
        "    optimizer.step()\n"
        "trained = gpumemprof.estimate(train, model=model, optimizer=optimizer, gpu='l4')\n"
        "assert trained.peak_allocated_bytes >= result.peak_allocated_bytes + (8 << 20)\n"
        "assert not optimizer.state\n"
        "for mistaken in (train_original, train):\n"
        "    try:\n"
        "        gpumemprof.estimate(mistaken, model=model, gpu='l4')\n"
        "    except gpumemprof.UsageError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    answer, original, missing = done.stdout.splitlines()
    assert answer.startswith("<Estimate: fits an L4: peak ")
    assert "optimizer of the original model" in original
    assert "missing a required argument: 'optimizer'" in missing


INFERENCE = """
import torch
model = torch.nn.Sequential(
    torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)
).to("cuda").eval()
with torch.no_grad():
    {loop}: model(torch.randn(64, 1024, device="cuda"))
"""


@pytest.mark.parametrize(
    ("loop", "limit", "code", "ended", "answer"),
    [
        ("for _ in range(20)", "100", 0, "exit", "fits"),
        ("while True", "10", 1, "limit", "may not fit"),
    ],
)
def test_a_program_without_training_is_inference(
    tmp_path: Path, loop: str, limit: str, code: int, ended: str, answer: str
) -> None:
    (tmp_path / "serve.py").write_text(INFERENCE.format(loop=loop))
    done = estimate(tmp_path, "--json", "--limit", limit, "serve.py")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ended"], found["verdict"]["answer"]) == (code, ended, answer)
    assert found["optimizer_steps"] == 0
    (device,) = found["devices"]
    assert device["run_kind"] == "inference"
    held = {name: figure["bytes_max"] for name, figure in device["sources"].items()}
    assert held["parameters"] == 4 * 2 * (1024 * 1024 + 1024)
    assert (held["gradients"], held["optimizer_state"], held["temporaries"]) == (0, 0, 0)


CLEARED = """
import torch
model = torch.nn.Sequential(
    torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)
).to("cuda")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(64, 512, device="cuda")
    y = torch.randint(0, 10, (64,), device="cuda")
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
torch._C._cuda_clearCublasWorkspaces()
"""


def test_workspaces_that_a_program_clears_stay_workspace(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CLEARED)
    done = estimate(tmp_path, "--json", "--steps", "all", "train.py")
    assert done.returncode == 0, done.stderr
    (device,) = json.loads(done.stdout)["devices"]
    held = {name: figure["bytes_max"] for name, figure in device["sources"].items()}
    assert held["gradients"] == held["parameters"] == 4 * (513 * 2048 + 2049 * 10)
    assert held["activations"] < 1 << 20
    assert held["workspace"] > 32 << 20


GROWING = """
import torch
model = torch.nn.Linear(1000, 1000).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = []
for _ in range(1000):
    kept.append(model(torch.randn(4096, 1000, device="cuda")))
    kept[-1].square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_program_that_grows_is_said_to_fit_with_its_first_steps_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(GROWING)
    done = estimate(tmp_path, "--gpu", "t4", "train.py")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert text.startswith("The first steps of train.py fit a T4: ")
    assert "Memory grew by 16.0 MiB a step: the whole run needs more, --steps all." in text


COMPILED = """
import torch

model = torch.nn.Sequential(*(torch.nn.GELU() for _ in range(8))).to("cuda")
x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
model = torch.compile(model, fullgraph=True)
model(x).sum().backward()
"""


def test_a_compiled_program_keeps_no_intermediate_results(tmp_path: Path) -> None:
    (tmp_path / "compiled.py").write_text(COMPILED)
    done = estimate(tmp_path, "--json", "--gpu", "t4", "compiled.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "execution" not in {each["kind"] for each in found["assumptions"]}, found["assumptions"]
    # Input, output, its gradient and that of the input; eagerly all eight inputs are kept.
    assert found["verdict"]["peak_allocated_bytes"] < 6 * (4 << 20)


GRAPHED = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()).to("cuda").eval()
model = torch.compile(model, mode="reduce-overhead")
taken = []
with torch.no_grad():
    for _ in range(4):
        x = torch.randn(1024, 1024, device="cuda")
        before = torch.cuda.memory_allocated()
        y = model(x)
        taken.append(torch.cuda.memory_allocated() - before)
        del x, y
print("taken", *taken)
"""


def test_a_replayed_graph_of_a_compiled_program_allocates_nothing(tmp_path: Path) -> None:
    (tmp_path / "graphed.py").write_text(GRAPHED)
    done = estimate(tmp_path, "--gpu", "h200", "--steps", "all", "graphed.py")
    assert done.returncode == 0, done.stderr
    said = next(line for line in (done.stdout + done.stderr).splitlines() if "taken" in line)
    first, second, *replays = (int(each) for each in said.split()[1:])
    # The result and the state of the random numbers, then the result alone.
    assert (first, second) == ((4 << 20) + 2 * 512, 4 << 20)
    assert replays == [0, 0]


BROKEN = """
import torch

@torch.compile(fullgraph=True)
def double(x):
    y = x * 2
    print("a call that cannot be compiled")
    return y + 1

double(torch.ones(1000, device="cuda"))
"""


def test_a_graph_that_torch_would_refuse_to_break_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    done = estimate(tmp_path, "--json", "broken.py")
    assert done.returncode == 0, done.stderr
    texts = [each["text"] for each in json.loads(done.stdout)["assumptions"]]
    assert any("fullgraph=True was asked for" in text for text in texts), texts
