"""What ``gpumemprof run`` leaves in the environment of a program's processes, and on the disk."""

from __future__ import annotations

import http.server
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from capture_programs import run_recorded

SECRET = "T0K3N"
ALLOCATE = "import torch\nkept = torch.empty(8 << 20, dtype=torch.uint8)\n"


class _Alerts(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def webhook() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Alerts)
    server.paths = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("flags", [[], ["--no-children"]], ids=["children", "no children"])
def test_webhook_is_not_in_the_environment_and_all_recorded_processes_use_it(
    tmp_path: Path, webhook: http.server.ThreadingHTTPServer, flags: list[str]
) -> None:
    (tmp_path / "child.py").write_text(ALLOCATE)
    (tmp_path / "train.py").write_text(
        ALLOCATE
        + textwrap.dedent(
            """
            import os, subprocess, sys
            print(subprocess.run(["env"], capture_output=True, text=True, check=True).stdout)
            print(open("/proc/self/environ").read())
            subprocess.run([sys.executable, "child.py"], check=True)
            """
        )
    )
    address = f"http://127.0.0.1:{webhook.server_port}/{SECRET}"
    alert = ["--alert", "allocated>4MiB", "--alert-webhook", address]
    done = run_recorded(tmp_path, "--cpu", *flags, *alert, "train.py")
    assert done.returncode == 0, done.stderr
    assert "PATH=" in done.stdout
    assert SECRET not in done.stdout
    count = 1 if flags else 2
    assert done.stderr.count("gpumemprof: alert: ") == count
    assert webhook.paths == [f"/{SECRET}"] * count  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_program_that_is_killed_leaves_nothing_but_its_recording(
    tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "train.py").write_text(
        f"{ALLOCATE}import os\nos.kill(os.getpid(), {int(number)})\n"
    )
    done = run_recorded(
        tmp_path, "-o", "run.gmp", "train.py", environment={"TMPDIR": str(temporary)}
    )
    assert done.returncode == -number
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.gmp", "temporary", "train.py"]


def test_program_that_closes_all_descriptors_keeps_its_children_recorded(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(ALLOCATE)
    (tmp_path / "train.py").write_text(
        f"{ALLOCATE}import os, subprocess\nos.closerange(3, 100_000)\n"
        f"subprocess.run([{sys.executable!r}, 'child.py'], check=True)\n"
    )
    done = run_recorded(tmp_path, "-o", "run.gmp", "train.py")
    assert done.returncode == 0, done.stderr
    assert "1 allocation, 0 frees in run.gmp" in done.stderr
    assert len(list(tmp_path.glob("run.*.gmp"))) == 1
