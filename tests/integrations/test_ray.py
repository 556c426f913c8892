"""Reports and tables from a Ray cluster equal those of one machine, to the byte."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray has no package for this Python")
pytest.importorskip("pyarrow")

DATA = Path(__file__).parents[1] / "data"
COPIES = 12
LIMIT_SECONDS = 240


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several recordings without a summary, each read in many windows."""
    folder = tmp_path_factory.mktemp("job")
    for number in range(COPIES):
        shutil.copyfile(DATA / "traces/cpu_training.gmp", folder / f"rank{number}.gmp")
    (folder / "damaged.gmp").write_bytes(b"nothing of the kind")
    return folder


class Started:
    """The command, with a mark by which the processes of its cluster are found."""

    def __init__(self, *words: str) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpumemprof", *words],
            env={**os.environ, "GPUMEMPROF_TEST_MARK": self.mark, "RAY_AUTH_MODE": "disabled"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def workers(self) -> list[int]:
        """Processes of the cluster that run one of our tasks now."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                is_ours = self.mark.encode() in (entry / "environ").read_bytes()
                is_busy = (entry / "cmdline").read_bytes().startswith(b"ray::write_pair")
            except OSError:
                continue
            if is_ours and is_busy:
                found.append(int(entry.name))
        return found

    def finish(self) -> tuple[int, bytes, bytes]:
        output, errors = self.process.communicate(timeout=LIMIT_SECONDS)
        return self.process.returncode, output, errors


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_report_from_ray_is_that_of_one_machine(job: Path) -> None:
    here = Started("ranks", "--json", str(job)).finish()
    there = Started("ranks", "--json", "--ray", "local", str(job)).finish()
    assert there[:2] == here[:2]
    assert here[0] == 3
    assert b"damaged.gmp" in here[2]
    assert there[2] == here[2]


def test_tables_from_ray_are_the_same_although_a_worker_is_killed(
    job: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert Started("export", "--to", "parquet", str(here), str(job)).finish()[0] == 3
    started = Started("export", "--to", "parquet", "--ray", "local", str(there), str(job))
    end = time.monotonic() + LIMIT_SECONDS
    killed = 0
    while started.process.poll() is None and not killed and time.monotonic() < end:
        for worker in started.workers()[:1]:
            os.kill(worker, signal.SIGKILL)
            killed += 1
        time.sleep(0.01)
    code, output, errors = started.finish()
    assert killed == 1
    assert code == 3, errors
    # What Ray says about the lost worker is not among it.
    assert output.decode() == f"{COPIES} recordings written to {there}\n"
    assert files(there) == files(here)
    # Five tables and the summary of each recording; three tables that all of them share.
    assert len(files(here)) == 6 * COPIES + 3


def test_a_cluster_that_does_not_answer_gets_a_sentence(job: Path) -> None:
    code, _, errors = Started("ranks", "--ray", "127.0.0.1:1", str(job)).finish()
    assert code == 4
    lines = [line for line in errors.decode().splitlines() if line.startswith("gpumemprof:")]
    assert len(lines) == 1
    assert "ray start --head" in lines[0]
    assert b"Traceback" not in errors
