"""Programs with several processes, and a notebook kernel: each recording equals its own count."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from programs import environment, peak_of, run, run_program, write


def test_spawn_of_torch(tmp_path: Path) -> None:
    ran = run_program(
        tmp_path,
        """
        import json, torch, torch.multiprocessing as mp
        from referee import Referee
        def work(rank):
            referee = Referee()
            model = torch.nn.Linear(100 * (rank + 1), 100)
            for _ in range(3): model(torch.randn(50, 100 * (rank + 1))).sum().backward()
            json.dump(referee.peak(), open(f"peak{rank}.json", "w"))
        if __name__ == "__main__": mp.spawn(work, nprocs=2)
        """,
    )
    counted = sorted([ran.counted("peak0"), ran.counted("peak1")])
    assert ran.recorded("run.*.gmp") == counted
    assert not (tmp_path / "run.gmp").exists()
    assert "2 child processes were recorded" in ran.closing


def test_torchrun_with_two_ranks(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import json, torch, torch.distributed as dist
        from referee import Referee
        referee = Referee()
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 200))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model(torch.randn(10 * (rank + 1), 200)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.barrier()
        json.dump(referee.peak(), open(f"peak{rank}.json", "w"))
        dist.destroy_process_group()
        """,
        "ddp.py",
    )
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = run(tmp_path, *launcher, "ddp.py")
    for rank in (0, 1):
        assert ran.recorded(f"run.*.rank{rank}.*.gmp") == [ran.counted(f"peak{rank}")]


CELLS = [
    "import torch\nfrom referee import Referee\nreferee = Referee()",
    "model = torch.nn.Linear(300, 300)",
    "for _ in range(3): model(torch.randn(30, 300)).sum().backward()",
    "import json\njson.dump(referee.peak(), open('peak.json', 'w'))",
]


@pytest.mark.parametrize("is_by_variable", [False, True], ids=["run", "GPUMEMPROF=1"])
def test_a_kernel_of_a_notebook(tmp_path: Path, is_by_variable: bool) -> None:
    from jupyter_client.manager import KernelManager

    write(tmp_path, "")
    manager = KernelManager()
    words = [] if is_by_variable else ["-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp"]
    kernel = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = [sys.executable, *words, *kernel]
    variables = {"GPUMEMPROF": "1"} if is_by_variable else {}
    manager.start_kernel(cwd=str(tmp_path), env={**environment(tmp_path), **variables})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        for cell in CELLS:
            reply = client.execute_interactive(cell, timeout=120, store_history=False)
            assert reply["content"]["status"] == "ok", reply
    finally:
        client.stop_channels()
        manager.shutdown_wait_time = 60.0  # a busy machine takes its time to close the recording
        manager.shutdown_kernel()
    counted = json.loads((tmp_path / "peak.json").read_text())
    (recording,) = tmp_path.glob("*.gmp")
    assert recording.name.startswith("notebook." if is_by_variable else "run.")
    assert peak_of(recording) == counted
